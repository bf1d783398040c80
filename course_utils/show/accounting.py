"""What fills the memory in training, and on which device does it fit?"""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.patches import Patch

from course_utils import colours
from course_utils.configs import Kernels, RunConfig, device, precision, preset
from course_utils.formulas.activations import layers_saved_bytes, model_saved_bytes
from course_utils.formulas.memory import state_bytes
from course_utils.formulas.parameters import parameters
from course_utils.show.picture import Picture, axes

GIB = 2**30
PARTS = {
    "parameters": colours.PARAMETERS,
    "gradients": colours.GRADIENTS,
    "optimizer states": colours.OPTIMIZER_STATES,
    "activations": colours.ACTIVATIONS,
    "logits and loss": colours.TEMPORARIES,
}
SHOWN_DEVICES = ("A100-40", "A100-80", "H200")
POLICIES = ("none", "selective", "full")


def memory_parts(model: str, run: RunConfig, recomputation: str = "none") -> dict[str, int]:
    """Bytes of training state and saved activations of a published model, by part."""
    sizes = preset(model)
    state = state_bytes(sum(parameters(sizes).values()), run.precision)
    kept = model_saved_bytes(sizes, run)
    return {
        "parameters": state["weights"],
        "gradients": state["gradients"],
        "optimizer states": state["master_weights"] + state["moments"],
        "activations": layers_saved_bytes(sizes, run, recomputation)
        + kept["embedding"]
        + kept["final_norm"]
        + kept["head"],
        "logits and loss": kept["loss"],
    }


def training_memory(  # noqa: PLR0913  one argument for each slider
    model: str,
    *,
    seq_len: int,
    micro_batch_size: int,
    recipe: str,
    attention: str,
    recomputation: str,
) -> Picture:
    """What training keeps on a device, part beside part, against the memory of real devices.

    Args:
        model: Name of a preset.
        seq_len: Tokens of one sequence.
        micro_batch_size: Sequences of a forward pass.
        recipe: Name of a precision.
        attention: ``"fused"`` or ``"materialised"``.
        recomputation: ``"none"``, ``"selective"`` or ``"full"``.
    """
    run = RunConfig(
        micro_batch_size=micro_batch_size,
        seq_len=seq_len,
        precision=precision(recipe),
        kernels=Kernels(is_attention_fused=attention == "fused"),
        is_loss_fp32=True,
    )
    parts = memory_parts(model, run, recomputation)
    total = sum(parts.values())
    figure, pair = axes(height=1.9)
    left = 0.0
    for name, part in parts.items():
        pair.barh([0], [part / GIB], left=left / GIB, color=PARTS[name], label=name)
        left += part
    fits = [name for name in SHOWN_DEVICES if total <= device(name).memory_bytes]
    for name in SHOWN_DEVICES:
        line = device(name).memory_bytes / GIB
        pair.axvline(line, color=colours.MEASURED, linestyle="--", linewidth=1)
        pair.text(line, 0.5, f" {name}", va="bottom", fontsize=8)
    pair.set_xlim(0, 1.15 * max(total, device(SHOWN_DEVICES[-1]).memory_bytes) / GIB)
    pair.set_ylim(-0.5, 0.7)
    pair.set_yticks([])
    pair.set_xlabel("GiB kept")
    pair.legend(ncols=5, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)
    caption = (
        f"{model}, {micro_batch_size:,} × {seq_len:,} tokens, {recipe}, {attention} attention, "
        f"recomputation {recomputation}: {total / GIB:,.1f} GiB, of which activations "
        f"{parts['activations'] / GIB:,.1f} and logits {parts['logits and loss'] / GIB:,.1f}. "
        + (f"It fits on {', '.join(fits)}." if fits else "It fits on none of the three.")
    )
    return Picture(figure, caption)


def memory_over_length(
    model: str, attention: str, lengths: Sequence[int] = (1024, 2048, 4096, 8192)
) -> Picture:
    """One sequence of growing length under three policies of recomputation, as in the lectures.

    Args:
        model: Name of a preset.
        attention: ``"fused"`` or ``"materialised"``.
        lengths: Tokens of the sequence.
    """
    fused = Kernels(is_attention_fused=attention == "fused")
    run = RunConfig(seq_len=lengths[0], kernels=fused, is_loss_fp32=True)
    figure, pair = axes(height=3.0)
    ticks: dict[float, str] = {}
    tops: dict[tuple[str, int], float] = {}
    for group, policy in enumerate(POLICIES):
        for n, seq_len in enumerate(lengths):
            place = group * (len(lengths) + 1) + n
            parts = memory_parts(model, replace(run, seq_len=seq_len), policy)
            bottom = 0.0
            for name, part in parts.items():
                pair.bar([place], [part / GIB], bottom=bottom, color=PARTS[name])
                bottom += part / GIB
            ticks[place] = f"{seq_len:,}"
            tops[policy, seq_len] = bottom
        pair.text(
            *(group * (len(lengths) + 1) + (len(lengths) - 1) / 2, 1.0),
            policy,
            ha="center",
            va="bottom",
            transform=pair.get_xaxis_transform(),
        )
    limit = device("A100-80").memory_bytes / GIB
    pair.axhline(limit, color=colours.MEASURED, linestyle="--", linewidth=1)
    pair.annotate(
        "A100-80", (1, limit), xycoords=("axes fraction", "data"), va="center", fontsize=8
    )
    pair.set_xticks(list(ticks), list(ticks.values()), rotation=45, ha="right", fontsize=8)
    pair.set_xlabel("tokens of one sequence; above: what is recomputed")
    pair.set_ylabel("GiB kept")
    pair.legend(
        handles=[Patch(color=colour, label=name) for name, colour in PARTS.items()],
        **{"ncols": 5, "frameon": False, "loc": "upper center"},
        **{"bbox_to_anchor": (0.5, -0.38), "fontsize": 8},
    )
    first, last = lengths[0], lengths[-1]
    caption = (
        f"{model}, one sequence, bf16 with fp32 master weights, {attention} attention: without "
        f"recomputation {tops['none', first]:,.1f} GiB at {first:,} tokens and "
        f"{tops['none', last]:,.1f} at {last:,}; selective {tops['selective', last]:,.1f} and full "
        f"{tops['full', last]:,.1f} there."
    )
    return Picture(figure, caption)
