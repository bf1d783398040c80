"""What is in memory during a training step, and how long does each tensor live?"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from course_utils import colours
from course_utils.instruments import MemoryTrace, TracedStorage
from course_utils.quantities import BYTES, format_bytes, unit_of
from course_utils.show.picture import AT_TOP, Picture, axes, axes_beside, legend_above, note

COLOURS = {
    "parameters": colours.PARAMETERS,
    "optimizer_states": colours.OPTIMIZER_STATES,
    "gradients": colours.GRADIENTS,
    "activations": colours.ACTIVATIONS,
    "temporaries": colours.TEMPORARIES,
}
PHASES = {"forward": "forward pass", "backward": "backward pass", "step": "optimizer's step"}

# Few enough that a column, and so a peak of one operation, is wide enough to see.
MAX_COLUMNS = 300


def memory_timeline(
    trace: MemoryTrace,
    step: int | None = None,
    *,
    limit_bytes: int | None = None,
    names: Sequence[str] = (),
) -> Picture:
    """Live bytes over operations, stacked by category, with the training steps and the peak marked.

    The caption says where the peak is, what is live there, and which tensor other than a parameter
    is the largest.

    Args:
        trace: A trace of one or more training steps.
        step: The training step to draw, from 1, with its phases; by default all steps.
        limit_bytes: The highest peak that the axis has room for, to compare traces; by default
            this one.
        names: What begins with each forward pass, where one traced call runs a loop of them; by
            default the traced steps.

    Raises:
        ValueError: If there is no such step, or not one name for each forward pass.
    """
    titles = _titles(trace, names)
    figure, ax = axes(height=3.6)
    shown = _operations(trace, step)
    limit = limit_bytes or _peak_bytes(trace, shown)
    unit_bytes, unit = unit_of(limit, BYTES)
    _draw_stack(ax, trace, shown, unit_bytes, MAX_COLUMNS)
    _mark_peak(ax, trace, shown, unit_bytes)
    ax.set_ylim(0, 1.3 * limit / unit_bytes)
    _mark_phases(ax, trace, step, titles)
    ax.set_ylabel(f"live memory in {unit}")
    legend_above(ax, 5)
    return Picture(figure, _timeline_caption(trace, step, titles))


def memory_timelines(traces: Mapping[str, MemoryTrace]) -> Picture:
    """Live bytes of several traces side by side on one scale, each with its peak.

    Args:
        traces: Traces, by their titles.
    """
    figure, all_axes = axes_beside(3.6, [1] * len(traces), sharey=True)
    highest = max(trace.peak_bytes for trace in traces.values())
    unit_bytes, unit = unit_of(highest, BYTES)
    for ax, (name, trace) in zip(all_axes, traces.items(), strict=True):
        shown = _operations(trace, None)
        _draw_stack(ax, trace, shown, unit_bytes, MAX_COLUMNS // len(traces))
        _mark_peak(ax, trace, shown, unit_bytes)
        ax.set_title(name, fontsize="medium")
        ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    all_axes[0].set(ylim=(0, 1.15 * highest / unit_bytes), ylabel=f"live memory in {unit}")
    _add_shared_legend(figure, traces)
    peaks = "; ".join(f"{_describe_peak(each, None, {})} ({name})" for name, each in traces.items())
    return Picture(figure, f"Peaks on one scale: {peaks}.")


def _add_shared_legend(figure: Figure, traces: Mapping[str, MemoryTrace]) -> None:
    """A legend of the categories that occur in at least one trace."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    occurring = {
        _in_words(category)
        for trace in traces.values()
        for category, live_bytes in trace.live_bytes.items()
        if any(live_bytes)
    }
    shown = {label: each for each, label in zip(handles, labels, strict=True) if label in occurring}
    figure.legend(
        list(shown.values()), list(shown), ncols=5, frameon=False, loc="outside lower center"
    )


def _operations(trace: MemoryTrace, step: int | None) -> range:
    """All operations and the moment before the first, or those of one training step."""
    if step is None:
        return range(trace.num_operations + 1)
    trace.peak_bytes_of(step)  # raises an error if there is no such step
    phases = [phase for phase in trace.phases if phase.step == step]
    return range(phases[0].start, phases[-1].stop)


def _draw_stack(
    ax: Any, trace: MemoryTrace, shown: range, unit_bytes: float, max_columns: int
) -> None:
    """Draw each category from zero up to the sum so far, the later ones behind it."""
    columns = dict(_columns(trace, shown, max_columns))
    edges, tops = [*columns, shown.stop], [0.0] * len(columns)
    for place, (category, line) in enumerate(trace.live_bytes.items()):
        tops = [top + line[at] / unit_bytes for top, at in zip(tops, columns.values(), strict=True)]
        area = {"color": COLOURS[category], "label": _in_words(category), "linewidth": 0}
        ax.stairs(tops, edges, fill=True, zorder=-place, **area)
    ax.set(xlim=(shown.start, shown.stop - 1), xlabel="operation")
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.xaxis.set_major_formatter("{x:,.0f}")


def _columns(trace: MemoryTrace, shown: range, max_columns: int) -> Iterator[tuple[int, int]]:
    """The start of each stretch of operations, and where it has the most live bytes."""
    width = -(-len(shown) // max_columns)
    for start in shown[::width]:
        stretch = range(start, min(start + width, shown.stop))
        yield start, _peak_at(trace, stretch)


def _peak_at(trace: MemoryTrace, shown: range) -> int:
    return max(shown, key=trace.total_bytes.__getitem__)


def _peak_bytes(trace: MemoryTrace, shown: range) -> int:
    return trace.total_bytes[_peak_at(trace, shown)]


def _mark_peak(ax: Any, trace: MemoryTrace, shown: range, unit_bytes: float) -> None:
    peak_at = _peak_at(trace, shown)
    peak_bytes = trace.total_bytes[peak_at]
    peak = peak_bytes / unit_bytes
    ax.plot([peak_at], [peak], "v", color=colours.MEASURED, clip_on=False)
    note(ax, format_bytes(peak_bytes), (peak_at, peak), (0, 6), ha="center")


def _titles(trace: MemoryTrace, names: Sequence[str]) -> dict[int, str]:
    """The name of what begins with each forward pass, by its first operation, if there are any."""
    starts = [phase.start for phase in trace.phases if phase.name == "forward"]
    return dict(zip(starts, names, strict=True)) if names else {}


def _mark_phases(ax: Any, trace: MemoryTrace, step: int | None, titles: Mapping[int, str]) -> None:
    """Mark the start of each phase with a line, and name each training step, or its phases."""
    for phase in trace.phases if _has_training(trace) else ():
        if step is None or phase.step == step:
            is_first = phase.name == "forward"
            name = PHASES[phase.name]
            if step is None:
                name = titles.get(phase.start, f"step {phase.step}") if is_first else ""
            line = {"linewidth": 0.8} if is_first else {"linewidth": 0.3, "ymax": 0.92}
            mark_start(ax, phase.start, name, **line)


def mark_start(ax: Any, at: float, name: str, **line: Any) -> None:
    """Draw an upright line, with the name of what begins there if it has one."""
    ax.axvline(at, color=colours.NEUTRAL, **line)
    if name:
        note(ax, name, (at, 1.0), (4, 0), xycoords=AT_TOP, va="top")


def _describe_peak(trace: MemoryTrace, step: int | None, titles: Mapping[int, str]) -> str:
    """The peak and its phase: ``31.00 GiB in the backward pass of step 2``."""
    peak_at = _peak_at(trace, _operations(trace, step))
    return f"{format_bytes(trace.total_bytes[peak_at])} {_locate(trace, peak_at, titles)}"


def _locate(trace: MemoryTrace, operation: int, titles: Mapping[int, str]) -> str:
    """Where an operation is, as in ``in the backward pass of step 2``."""
    if not _has_training(trace):
        return f"at operation {operation:,}"
    phase = next((each for each in trace.phases if operation < each.stop), trace.phases[-1])
    begun = [title for start, title in titles.items() if start <= phase.start]
    title = begun[-1] if begun else f"step {phase.step}"
    return f"in the {PHASES[phase.name]} of {title}"


def _has_training(trace: MemoryTrace) -> bool:
    """Whether more than forward passes was traced: an evaluation has no training steps."""
    return any(phase.name != "forward" for phase in trace.phases)


def _timeline_caption(trace: MemoryTrace, step: int | None, titles: Mapping[int, str]) -> str:
    peak_at = _peak_at(trace, _operations(trace, step))
    live = [each for each in trace.live_at(peak_at).items() if each[1]]
    parts = ", ".join(f"{_in_words(name)} {format_bytes(size)}" for name, size in live)
    peak = f"Peak of {_describe_peak(trace, step, titles)}: {parts}"
    return f"{peak}{_largest_caption(trace, peak_at)}."


def _largest_caption(trace: MemoryTrace, peak_at: int) -> str:
    """The largest tensor at the peak, other than parameters, which are always live."""
    live = [each for each in trace.storages_at(peak_at) if each.category != "parameters"]
    if not live:
        return ""
    largest = live[0]
    made = f"made by {largest.operation}" if largest.operation else "there from the beginning"
    return (
        f"; beside the parameters the largest tensor has shape {largest.shape} and "
        f"{format_bytes(largest.storage_bytes)}, {made}"
    )


def births_and_deaths(
    trace: MemoryTrace, step: int = 1, *, has_temporaries: bool = False
) -> Picture:
    """Each activation of one training step as a bar from its allocation to its release.

    A bar's thickness is its tensor's bytes, and bars are stacked in the order of allocation: the
    height is what was allocated so far. Scalars are left out.

    Args:
        trace: A trace of at least a forward pass.
        step: The training step, from 1.
        has_temporaries: Whether to draw the temporaries of its backward pass too, among them what
            is recomputed.

    Raises:
        ValueError: If that step keeps no activation.
    """
    kept = list(_made_in(trace, step, "activations"))
    made = [*kept, *(_made_in(trace, step, "temporaries") if has_temporaries else ())]
    if not kept:
        raise ValueError(f"births_and_deaths: step {step} of this trace keeps no activation")
    figure, ax = axes(height=3.6)
    unit_bytes, unit = unit_of(sum(each.storage_bytes for each in made), BYTES)
    height = _draw_lifetimes(ax, made, trace, unit_bytes)
    for phase in trace.phases:
        if (phase.step, phase.name) == (step, "backward"):
            mark_start(ax, phase.start, "backward pass", linestyle="--")
    ax.set(ylim=(0, 1.12 * height), xlabel="operation")
    if has_temporaries:
        kinds = {"activations": "activations", "temporaries": "temporaries of the backward pass"}
        legend_above(ax, 2, *(Patch(color=COLOURS[each], label=kinds[each]) for each in kinds))
    ax.set_ylabel(f"tensors as made, as thick as their {unit}")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    about_temporaries = _temporaries_caption(made[len(kept) :], trace) if has_temporaries else ""
    return Picture(figure, f"{_lifetimes_caption(kept, trace)}{about_temporaries}.")


def _draw_lifetimes(
    ax: Any, made: Sequence[TracedStorage], trace: MemoryTrace, unit_bytes: float
) -> float:
    """Stack one bar per storage, and return the total height."""
    total = sum(each.storage_bytes for each in made)
    height = 0.0
    for each in made:
        thickness = each.storage_bytes / unit_bytes
        edge = min(0.5, 20 * each.storage_bytes / total)  # a line as thick as the bar would hide it
        bar = [(each.born, _lifetime(each, trace))]
        style = {"facecolor": COLOURS[each.category], "edgecolor": "white", "linewidth": edge}
        ax.broken_barh(bar, (height, thickness), **style)
        height += thickness
    return height


def _made_in(trace: MemoryTrace, step: int, category: str) -> Iterator[TracedStorage]:
    """Storages of a category that a step makes; for temporaries, that its backward pass makes.

    Scalars, such as the loss and its gradient, and empty tensors are too small to see.
    """
    phases = [phase for phase in trace.phases if phase.step == step]
    if category == "temporaries":
        phases = [phase for phase in phases if phase.name == "backward"]
    for each in trace.storages:
        is_made = any(phase.start <= each.born < phase.stop for phase in phases)
        if each.category == category and is_made and each.shape and each.storage_bytes:
            yield each


def _lifetime(storage: TracedStorage, trace: MemoryTrace) -> int:
    """Operations from a storage's allocation to its release, or to the end of the trace."""
    end = trace.num_operations + 1 if storage.died is None else storage.died
    return end - storage.born


def _lifetimes_caption(kept: Sequence[TracedStorage], trace: MemoryTrace) -> str:
    total = sum(each.storage_bytes for each in kept)
    first, last = (_lifetime(each, trace) for each in (kept[0], kept[-1]))
    return (
        f"Of {len(kept):,} activations, {format_bytes(total)} together, the first lives for "
        f"{first:,} operations and the last for {last:,}"
    )


def _temporaries_caption(temporaries: Sequence[TracedStorage], trace: MemoryTrace) -> str:
    longest = max((_lifetime(each, trace) for each in temporaries), default=0)
    return f"; none of {len(temporaries):,} temporaries lives for more than {longest:,}"


def _in_words(category: str) -> str:
    return category.replace("_", " ")
