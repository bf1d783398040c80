"""What fills the memory in training, and on which device does it fit?

Counted are the training state, all gradients at once, and what is saved for backward, but no
temporaries.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib.patches import Patch

from course_utils import colours
from course_utils.configs import Kernels, RunConfig, device, precision, preset
from course_utils.formulas.activations import model_saved_bytes
from course_utils.formulas.memory import state_bytes
from course_utils.formulas.parameters import parameters
from course_utils.formulas.recomputation import POLICIES, kept_bytes, segment_peak_bytes
from course_utils.show.picture import Picture, axes

GIB = 2**30
SHOWN_DEVICES = ("A100-40", "A100-80", "H200")

# The logits' log-softmax is saved for backward too: the colour of activations, hatched.
STYLES: dict[str, dict[str, Any]] = {
    "parameters": {"color": colours.PARAMETERS},
    "gradients": {"color": colours.GRADIENTS},
    "optimizer states": {"color": colours.OPTIMIZER_STATES},
    "activations": {"color": colours.ACTIVATIONS},
    "loss": {"facecolor": colours.ACTIVATIONS, "hatch": "////", "edgecolor": "white"},
}


def memory_parts(model: str, run: RunConfig, recomputation: str = "none") -> dict[str, int]:
    """Bytes of training state and saved activations of a published model, by part."""
    sizes = preset(model)
    state = state_bytes(sum(parameters(sizes).values()), run.precision)
    kept = model_saved_bytes(sizes, run)
    around_layers = kept["embedding"] + kept["final_norm"] + kept["head"]
    if recomputation == "full":  # at most: all inputs, and the layer that is being recomputed
        in_layers = segment_peak_bytes(sizes, run, layers_per_segment=1)
    else:
        in_layers = kept_bytes(sizes, run, recomputation)
    return {
        "parameters": state["weights"],
        "gradients": state["gradients"],
        "optimizer states": state["master_weights"] + state["moments"],
        "activations": in_layers + around_layers,
        "loss": kept["loss"],
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
    """A stacked bar of what training keeps on a device, against the memory of real devices.

    Args:
        model: Name of a preset.
        seq_len: Tokens per sequence.
        micro_batch_size: Sequences per forward pass.
        recipe: Name of a precision.
        attention: ``"fused"`` or ``"written out"``.
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
    figure, ax = axes(height=1.9)
    left = 0.0
    for name, part in parts.items():
        ax.barh([0], [part / GIB], left=left, label=name, **STYLES[name])
        left += part / GIB
    _mark_devices(ax, left)
    ax.set_yticks([])
    ax.set_xlabel("GiB counted")
    ax.legend(ncols=5, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)
    caption = (
        f"{model}, {micro_batch_size:,} × {seq_len:,} tokens, {recipe}, attention {attention}, "
        f"recomputation {recomputation}: {left:,.1f} GiB, of which activations "
        f"{parts['activations'] / GIB:,.1f} and the loss {parts['loss'] / GIB:,.1f}. "
        f"{_where_it_fits(sum(parts.values()))}"
    )
    return Picture(figure, caption)


def _mark_devices(ax: Any, total_gib: float) -> None:
    for name in SHOWN_DEVICES:
        line = device(name).memory_bytes / GIB
        ax.axvline(line, color=colours.MEASURED, linestyle="--", linewidth=1)
        ax.text(line, 0.5, f" {name}", va="bottom", fontsize=8)
    ax.set_xlim(0, 1.15 * max(total_gib, device(SHOWN_DEVICES[-1]).memory_bytes / GIB))
    ax.set_ylim(-0.5, 0.7)


def _where_it_fits(total_bytes: int) -> str:
    fits = [name for name in SHOWN_DEVICES if total_bytes <= device(name).memory_bytes]
    if fits:
        return f"What is counted fits on {', '.join(fits)}."
    return f"That is more than {', '.join(SHOWN_DEVICES[:-1])} and {SHOWN_DEVICES[-1]} have."


def memory_over_length(
    model: str, attention: str, lengths: Sequence[int] = (1024, 2048, 4096, 8192)
) -> Picture:
    """Memory over sequence length for three recomputation policies, as in the lectures.

    Args:
        model: Name of a preset.
        attention: ``"fused"`` or ``"written out"``.
        lengths: Tokens per sequence.
    """
    kernels = Kernels(is_attention_fused=attention == "fused")
    figure, ax = axes(height=3.0)
    places: dict[float, str] = {}
    totals: dict[tuple[str, int], float] = {}
    for group, policy in enumerate(POLICIES):
        first = group * (len(lengths) + 1)
        for place, seq_len in enumerate(lengths, start=first):
            run = replace(RunConfig(seq_len=seq_len, is_loss_fp32=True), kernels=kernels)
            totals[policy, seq_len] = _draw_stack(ax, place, memory_parts(model, run, policy))
            places[place] = f"{seq_len:,}"
        middle = first + (len(lengths) - 1) / 2
        ax.text(middle, 1.0, policy, ha="center", va="bottom", transform=ax.get_xaxis_transform())
    _label_lengths(ax, places)
    ax.set_ylabel(f"GiB counted, {model}")
    last = lengths[-1]
    caption = (
        f"{model}, one sequence, bf16 with fp32 master weights, attention {attention}: without "
        f"recomputation {totals['none', lengths[0]]:,.1f} GiB at {lengths[0]:,} tokens and "
        f"{totals['none', last]:,.1f} at {last:,}; selective {totals['selective', last]:,.1f} and "
        f"full {totals['full', last]:,.1f} there."
    )
    return Picture(figure, caption)


def _draw_stack(ax: Any, place: float, parts: dict[str, int]) -> float:
    """Draw parts on top of each other; return the height in GiB."""
    bottom = 0.0
    for name, part in parts.items():
        ax.bar([place], [part / GIB], bottom=bottom, **STYLES[name])
        bottom += part / GIB
    return bottom


def _label_lengths(ax: Any, places: dict[float, str]) -> None:
    """Add the lengths below, the line of a device, and a legend."""
    limit = device("A100-80").memory_bytes / GIB
    ax.axhline(limit, color=colours.MEASURED, linestyle="--", linewidth=1)
    where = ("axes fraction", "data")
    ax.annotate("A100-80", (1, limit), xycoords=where, va="center", fontsize=8)
    ax.set_xticks(list(places), list(places.values()), rotation=45, ha="right", fontsize=8)
    ax.set_xlabel("tokens of one sequence; above: what is recomputed")
    handles = [Patch(label=name, **style) for name, style in STYLES.items()]
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.38)}
    ax.legend(handles=handles, ncols=5, frameon=False, fontsize=8, **place)
