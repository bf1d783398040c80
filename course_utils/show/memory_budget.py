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
from course_utils.show.picture import AT_LEFT, Picture, axes, legend_above, note, text_on

GB = 10**9
SHOWN_DEVICES = ("A100-40", "A100-80", "H200")
AXIS_GB = 220  # where the axis of `training_memory` ends, whatever is counted
LABELLED_GB = 5  # narrower parts are too narrow for a number

# The logits' log-softmax is saved for backward too: the colour of activations, hatched.
STYLES: dict[str, dict[str, Any]] = {
    "weights": {"color": colours.PARAMETERS},
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
        "weights": state["weights"],
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
    figure, ax = axes(height=2.2)
    _draw_bar(ax, parts)
    _mark_devices(ax)
    ax.set(yticks=[], xlabel="GB counted")
    legend_above(ax, 5)
    total_bytes = sum(parts.values())
    return Picture(
        figure, f"{model}: {total_bytes / GB:,.1f} GB counted, {_where_it_fits(total_bytes)}."
    )


def _draw_bar(ax: Any, parts: dict[str, int]) -> None:
    """Draw parts beside each other, with their GB where there is room, and what is beyond."""
    left = 0.0
    for name, part in parts.items():
        gb = part / GB
        ax.barh([0], [gb], left=left, label=name, **STYLES[name])
        if name != "loss" and gb >= LABELLED_GB and left + gb <= AXIS_GB:
            colour = text_on(STYLES[name]["color"])
            ax.text(left + gb / 2, 0, f"{gb:,.0f}", ha="center", va="center", color=colour)
        left += gb
    if left > AXIS_GB:
        ax.annotate(f"{left:,.0f} GB →", (1, 0.5), xycoords=AT_LEFT, ha="right", va="bottom")


def _mark_devices(ax: Any) -> None:
    for name in SHOWN_DEVICES:
        line = device(name).memory_bytes / GB
        ax.axvline(line, color=colours.MEASURED, linestyle="--", linewidth=1, zorder=0)
        note(ax, name, (line, 0.5), (4, 0), va="bottom")
    ax.set(xlim=(0, AXIS_GB), ylim=(-0.5, 0.8))


def _where_it_fits(total_bytes: int) -> str:
    fits = [name for name in SHOWN_DEVICES if total_bytes <= device(name).memory_bytes]
    return f"which fits on {', '.join(fits)}" if fits else "more than any of these devices has"


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
    figure, ax = axes(height=3.8)
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
    ax.set_ylabel(f"GB counted, {model}")
    last = lengths[-1]
    caption = (
        f"{model}, attention {attention}: at {last:,} tokens {totals['none', last]:,.1f} GB "
        f"without recomputation, {totals['selective', last]:,.1f} with selective and "
        f"{totals['full', last]:,.1f} with full."
    )
    return Picture(figure, caption)


def _draw_stack(ax: Any, place: float, parts: dict[str, int]) -> float:
    """Draw parts on top of each other; return the height in GB."""
    bottom = 0.0
    for name, part in parts.items():
        ax.bar([place], [part / GB], bottom=bottom, **STYLES[name])
        bottom += part / GB
    return bottom


def _label_lengths(ax: Any, places: dict[float, str]) -> None:
    """Add the lengths below, the line of a device, and a legend."""
    limit = device("A100-80").memory_bytes / GB
    ax.axhline(limit, color=colours.MEASURED, linestyle="--", linewidth=1)
    ax.annotate("A100-80", (1, limit), xycoords=AT_LEFT, va="center")
    ax.set_xticks(list(places), list(places.values()))
    ax.set_xlabel("tokens of one sequence; above: what is recomputed")
    handles = [Patch(label=name, **style) for name, style in STYLES.items()]
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.08)}
    ax.legend(handles=handles, ncols=5, frameon=False, **place)
