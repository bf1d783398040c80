"""What is in memory at every moment of a training step, and how long does each tensor stay?"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from course_utils import colours
from course_utils.instruments import MemoryTrace, TracedStorage
from course_utils.show.picture import Picture, axes

COLOURS = {
    "parameters": colours.PARAMETERS,
    "optimizer_states": colours.OPTIMIZER_STATES,
    "gradients": colours.GRADIENTS,
    "activations": colours.ACTIVATIONS,
    "temporaries": colours.TEMPORARIES,
}
PHASES = {"forward": "forward pass", "backward": "backward pass", "step": "optimizer's step"}
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

# Few enough that a peak of one operation is as wide as a column that can be seen.
MAX_COLUMNS = 300


def memory_timeline(trace: MemoryTrace, step: int | None = None) -> Picture:
    """Live bytes over operations, stacked by category, with the training steps and the peak marked.

    The caption says where the peak is, what is live there, and which tensor beside the parameters
    is the largest.

    Args:
        trace: Of one training step or several.
        step: Number of the one training step to draw, from 1, with its phases; all without it.

    Raises:
        ValueError: If there is no such step.
    """
    figure, pair = axes(height=3.2)
    shown = _operations(trace, step)
    num_bytes, unit = _unit_of(max(map(trace.total_bytes.__getitem__, shown)))
    _stack(pair, trace, shown, num_bytes)
    _mark_peak(pair, trace, shown, num_bytes)
    _mark_phases(pair, trace, step)
    pair.set_ylabel(f"live memory in {unit}")
    pair.legend(ncols=3, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return Picture(figure, _timeline_caption(trace, step))


def memory_timelines(traces: Mapping[str, MemoryTrace], step: int | None = None) -> Picture:
    """Live bytes of several traces beside each other on one scale, each with its peak.

    Args:
        traces: What stands above each, and the trace.
        step: Number of the one training step to draw, from 1; all without it.

    Raises:
        ValueError: If a trace has no such step.
    """
    figure = Figure(figsize=(7.0, 3.0), layout="constrained")
    pairs = figure.subplots(1, len(traces), sharey=True, squeeze=False)[0]
    shown = {name: _operations(trace, step) for name, trace in traces.items()}
    peaks = {
        name: max(map(trace.total_bytes.__getitem__, shown[name])) for name, trace in traces.items()
    }
    num_bytes, unit = _unit_of(max(peaks.values()))
    for pair, (name, trace) in zip(pairs, traces.items(), strict=True):
        pair.spines[["top", "right"]].set_visible(False)
        _stack(pair, trace, shown[name], num_bytes)
        _mark_peak(pair, trace, shown[name], num_bytes)
        pair.set_title(name, fontsize="medium")
        pair.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    pairs[0].set_ylim(0, 1.15 * max(peaks.values()) / num_bytes)
    pairs[0].set_ylabel(f"live memory in {unit}")
    handles, labels = pairs[0].get_legend_handles_labels()
    there = {
        _in_words(category)
        for trace in traces.values()
        for category, line in trace.live_bytes.items()
        if any(line)
    }
    named = {label: handle for handle, label in zip(handles, labels, strict=True) if label in there}
    figure.legend(
        list(named.values()), list(named), ncols=5, frameon=False, loc="outside lower center"
    )
    told = "; ".join(f"{name}: {_where(trace, step)}" for name, trace in traces.items())
    return Picture(figure, f"Live memory on one scale. {told}.")


def _operations(trace: MemoryTrace, step: int | None) -> range:
    """All operations and the moment before them, or those of one training step."""
    if step is None:
        return range(trace.num_operations + 1)
    trace.peak_bytes_of(step)  # says which steps there are
    phases = [phase for phase in trace.phases if phase.step == step]
    return range(phases[0].start, phases[-1].stop)


def _stack(pair: Any, trace: MemoryTrace, shown: range, num_bytes: int) -> None:
    columns = dict(_columns(trace, shown))
    pair.stackplot(
        list(columns),
        [[line[at] / num_bytes for at in columns.values()] for line in trace.live_bytes.values()],
        labels=[_in_words(category) for category in trace.live_bytes],
        colors=[COLOURS[category] for category in trace.live_bytes],
        linewidth=0,
        step="post",
    )
    pair.set_xlim(shown.start, shown.stop - 1)
    pair.set_xlabel("operation")
    pair.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    pair.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _columns(trace: MemoryTrace, shown: range) -> Iterator[tuple[int, int]]:
    """Where each stretch of operations begins, and which of it has the most live bytes."""
    width = -(-len(shown) // MAX_COLUMNS)
    for start in shown[::width]:
        stretch = range(start, min(start + width, shown.stop))
        yield start, max(stretch, key=trace.total_bytes.__getitem__)


def _peak_at(trace: MemoryTrace, shown: range) -> int:
    return max(shown, key=trace.total_bytes.__getitem__)


def _mark_peak(pair: Any, trace: MemoryTrace, shown: range, num_bytes: int) -> None:
    peak_at = _peak_at(trace, shown)
    peak_bytes = trace.total_bytes[peak_at]
    peak = peak_bytes / num_bytes
    pair.plot([peak_at], [peak], "v", color=colours.MEASURED, clip_on=False)
    above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
    pair.annotate(bytes_as_read(peak_bytes), (peak_at, peak), **above)
    pair.set_ylim(0, 1.3 * peak)


def _mark_phases(pair: Any, trace: MemoryTrace, step: int | None) -> None:
    """A line where each phase begins, and the name of each training step, or of its phases."""
    at_top = {"xycoords": ("data", "axes fraction"), "va": "top", "color": colours.NEUTRAL}
    for phase in trace.phases if _has_training(trace) else ():
        if step is None or phase.step == step:
            is_first = phase.name == "forward"
            line = {"linewidth": 0.8} if is_first else {"linewidth": 0.3, "ymax": 0.92}
            pair.axvline(phase.start, color=colours.NEUTRAL, **line)
            name = f" step {phase.step}" if step is None else f" {PHASES[phase.name]}"
            if is_first or step is not None:
                pair.annotate(name, (phase.start, 1.0), **at_top)


def _where(trace: MemoryTrace, step: int | None) -> str:
    """The peak and its phase: ``31.00 GiB in the backward pass of step 2``."""
    peak_at = _peak_at(trace, _operations(trace, step))
    if not _has_training(trace):
        return f"{bytes_as_read(trace.total_bytes[peak_at])} at operation {peak_at:,}"
    phase = next((each for each in trace.phases if peak_at < each.stop), trace.phases[-1])
    peak = bytes_as_read(trace.total_bytes[peak_at])
    return f"{peak} in the {PHASES[phase.name]} of step {phase.step}"


def _has_training(trace: MemoryTrace) -> bool:
    """Whether anything but forward passes was traced: an evaluation has no steps to speak of."""
    return any(phase.name != "forward" for phase in trace.phases)


def _timeline_caption(trace: MemoryTrace, step: int | None) -> str:
    num_steps = trace.phases[-1].step
    peak_at = _peak_at(trace, _operations(trace, step))
    peak = bytes_as_read(trace.total_bytes[peak_at])
    where = _where(trace, step).removeprefix(f"{peak} ")
    live = trace.live_at(peak_at)
    parts = ", ".join(f"{_in_words(name)} {bytes_as_read(size)}" for name, size in live.items())
    what = "training step" if _has_training(trace) else "call"
    which = f"{num_steps} {what}{'s' * (num_steps > 1)}" if step is None else f"Step {step}"
    return (
        f"{which}: the peak of {peak} is {where}. Live there: {parts}."
        f"{_largest_caption(trace, peak_at)}"
    )


def _largest_caption(trace: MemoryTrace, peak_at: int) -> str:
    """What is largest beside the parameters, which are there at every moment."""
    live = [each for each in trace.storages_at(peak_at) if each.category != "parameters"]
    if not live:
        return ""
    made = f"made by {live[0].operation}" if live[0].operation else "there from the beginning"
    return (
        f" Beside the parameters the largest tensor has shape {live[0].shape}, takes "
        f"{bytes_as_read(live[0].storage_bytes)} and is {made}."
    )


def births_and_deaths(
    trace: MemoryTrace, step: int = 1, *, has_temporaries: bool = False
) -> Picture:
    """Each activation of one training step as a bar from its making to its freeing.

    A bar is as thick as its tensor has bytes, and bars lie on one another in the order of making:
    the height is what was made so far. Tensors without a dimension are left out.

    Args:
        trace: Of at least a forward pass.
        step: Number of the training step, from 1.
        has_temporaries: Whether the temporaries of its backward pass are drawn too, among them
            what is recomputed.

    Raises:
        ValueError: If that step keeps no activation.
    """
    kept = list(_made_in(trace, step, "activations"))
    made = [*kept, *(_made_in(trace, step, "temporaries") if has_temporaries else ())]
    if not kept:
        raise ValueError(f"births_and_deaths: step {step} of this trace keeps no activation")
    figure, pair = axes(height=3.2)
    num_bytes, unit = _unit_of(sum(each.storage_bytes for each in made))
    height = _bars_of_lives(pair, made, trace, num_bytes)
    for phase in trace.phases:
        if (phase.step, phase.name) == (step, "backward"):
            pair.axvline(phase.start, color=colours.NEUTRAL, linestyle="--")
            pair.annotate(" backward pass", (phase.start, 1.03 * height), color=colours.NEUTRAL)
    pair.set_ylim(0, 1.12 * height)
    pair.set_xlabel("operation")
    if has_temporaries:
        swatches = [Patch(color=COLOURS[name]) for name in ("activations", "temporaries")]
        labels = ["activations", "temporaries of the backward pass"]
        place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
        pair.legend(swatches, labels, ncols=2, frameon=False, **place)
    pair.set_ylabel(f"{unit} made so far")
    pair.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    again = _again_caption(made[len(kept) :], trace) if has_temporaries else ""
    return Picture(figure, _lives_caption(kept, trace, step) + again)


def _bars_of_lives(
    pair: Any, made: Sequence[TracedStorage], trace: MemoryTrace, num_bytes: int
) -> float:
    """Draw a bar for each on top of the last, and return the height of all."""
    total = sum(each.storage_bytes for each in made)
    height = 0.0
    for each in made:
        thickness = each.storage_bytes / num_bytes
        edge = min(0.5, 20 * each.storage_bytes / total)  # a line as thick as the bar would hide it
        bar = [(each.born, _end(each, trace) - each.born)]
        style = {"facecolor": COLOURS[each.category], "edgecolor": "white", "linewidth": edge}
        pair.broken_barh(bar, (height, thickness), **style)
        height += thickness
    return height


def _made_in(trace: MemoryTrace, step: int, category: str) -> Iterator[TracedStorage]:
    """What a step makes of a category; of temporaries those of its backward pass.

    A loss, its gradient and tensors without a number are too small to see.
    """
    phases = [phase for phase in trace.phases if phase.step == step]
    if category == "temporaries":
        phases = [phase for phase in phases if phase.name == "backward"]
    for each in trace.storages:
        is_made = any(phase.start <= each.born < phase.stop for phase in phases)
        if each.category == category and is_made and each.shape and each.storage_bytes:
            yield each


def _end(each: TracedStorage, trace: MemoryTrace) -> int:
    return trace.num_operations + 1 if each.died is None else each.died


def _lives_caption(kept: Sequence[TracedStorage], trace: MemoryTrace, step: int) -> str:
    total = sum(each.storage_bytes for each in kept)
    first, last = (_end(each, trace) - each.born for each in (kept[0], kept[-1]))
    return (
        f"The forward pass of step {step} makes {len(kept):,} activations, "
        f"{bytes_as_read(total)} together, each bar as thick as its bytes. The first of them lives "
        f"for {first:,} operations; the last, of shape {kept[-1].shape} and made by "
        f"{kept[-1].operation}, for {last:,}."
    )


def _again_caption(temporaries: Sequence[TracedStorage], trace: MemoryTrace) -> str:
    total = bytes_as_read(sum(each.storage_bytes for each in temporaries))
    longest = max((_end(each, trace) - each.born for each in temporaries), default=0)
    return (
        f" The backward pass makes {len(temporaries):,} temporaries, {total} one after the other, "
        f"none of which lives for more than {longest:,} operations."
    )


def bytes_as_read(num_bytes: int, digits: int = 2) -> str:
    """Bytes as a short text with so many digits after the point: ``13.28 GiB``."""
    size, unit = _unit_of(num_bytes)
    return f"{num_bytes:,} B" if size == 1 else f"{num_bytes / size:,.{digits}f} {unit}"


def _unit_of(num_bytes: int) -> tuple[int, str]:
    power = min(max(num_bytes.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    return 1024**power, UNITS[power]


def _in_words(category: str) -> str:
    return category.replace("_", " ")
