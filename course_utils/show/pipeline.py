"""Who works when in a pipeline, who waits, and how many activations lie in memory meanwhile?"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course_utils import colours
from course_utils.configs import Placement
from course_utils.instruments import PassSeconds, PipelineRun, simulate_pipeline
from course_utils.instruments.pipeline import TimedAction
from course_utils.show.picture import Picture, axes, text_on

# A row has two lanes: what a stage does, and below it what it holds.
ACTIONS, FLIGHTS = (-0.06, 0.48), (-0.4, 0.26)
STYLES: Mapping[str, Mapping[str, Any]] = {
    "F": {"facecolor": colours.COMPUTED},
    "B": {"facecolor": colours.COMPUTE},
    "I": {"facecolor": colours.COMPUTE},
    "W": {"facecolor": colours.GRADIENTS},
}
LABELS = {
    "F": "F forward",
    "B": "B backward",
    "I": "I gradient of the input",
    "W": "W gradients of the weights",
}
IDLE: Mapping[str, Any] = {
    "facecolor": "none",
    "edgecolor": colours.IDLE,
    "hatch": "////",
    "linewidth": 0,
}
WAITING: Mapping[str, Any] = {  # a label that the hatching of idle time does not cross
    "xytext": (6, 0),
    "textcoords": "offset points",
    "color": colours.ON_DARK,
    "va": "center",
    "weight": "bold",
    "bbox": {"facecolor": colours.WRONG, "linewidth": 0, "pad": 2},
}
HELD: Mapping[str, Any] = {"facecolor": colours.ACTIVATIONS, "alpha": 0.7, "linewidth": 0}
PRIMES = ("", "′", "″", "‴")
CHARACTER_INCHES, WIDTH_INCHES = 0.07, 8.3


def pipeline_timeline(run: PipelineRun) -> Picture:
    """What each stage does, and below it how many micro-batches' activations it holds.

    The number in a bar is that of the micro-batch; a prime marks each further chunk of a stage. A
    schedule that cannot be followed is drawn as far as it goes, and the caption says why.

    Args:
        run: What following a schedule came to.
    """
    last = float(run.seconds) or 1.0
    figure, ax = axes(height=1.0 + 0.62 * len(run.stages))
    most = max((run.in_flight(stage) for stage in run.stages), default=0) or 1
    for stage in run.stages:
        _draw_actions(ax, run, stage, WIDTH_INCHES / last)
        _draw_flights(ax, run, stage, most, last)
    for waiting in run.waiting:
        done = run.of(waiting.stage)
        at = float(done[-1].end) if done else 0.0
        words = f"{waiting.action[0]}{waiting.action[1]} ?"
        ax.annotate(words, (at, 0.18 - waiting.stage), **WAITING)
    ax.set_yticks([-stage for stage in run.stages], [f"stage {stage}" for stage in run.stages])
    ax.tick_params(axis="y", length=0)
    ax.set(ylim=(0.5 - len(run.stages), 0.55), xlim=(0, last * 1.07), xlabel="seconds")
    _add_legend(figure, run)
    return Picture(figure, _caption(run))


def _draw_actions(ax: Any, run: PipelineRun, stage: int, inches_per_second: float) -> None:
    low, height = ACTIONS
    done = run.of(stage)
    for kind, style in STYLES.items():
        bars = [(float(a.start), float(a.end - a.start)) for a in done if a.action[0] == kind]
        ax.broken_barh(bars, (low - stage, height), **style, edgecolor="white", linewidth=0.6)
    for each in done:
        _label(ax, each, low - stage + height / 2, inches_per_second)
    starts = [*(float(each.start) for each in done), float(run.seconds)]
    ends = [0.0, *(float(each.end) for each in done)]
    gaps = [(end, start - end) for end, start in zip(ends, starts, strict=True) if start > end]
    ax.broken_barh(gaps, (low - stage, height), **IDLE)


def _label(ax: Any, each: TimedAction, height: float, inches_per_second: float) -> None:
    """Write the number of the micro-batch into a bar, if it is wide enough."""
    kind, micro_batch, chunk = each.action
    text = f"{micro_batch}{PRIMES[min(chunk, len(PRIMES) - 1)]}"
    if float(each.end - each.start) * inches_per_second >= CHARACTER_INCHES * len(text):
        middle = float(each.start + each.end) / 2
        place = {"ha": "center", "va": "center", "fontsize": 7.5}
        ax.text(middle, height, text, color=text_on(STYLES[kind]["facecolor"]), **place)


def _draw_flights(ax: Any, run: PipelineRun, stage: int, most: float, last: float) -> None:
    """Steps of what a stage holds, all stages to one scale; at the right the largest."""
    low, height = FLIGHTS
    times, heights = [0.0], [low - stage]
    for time, number in run.flights(stage):
        times.append(float(time))
        heights.append(low - stage + number / run.placement.num_chunks / most * height)
    times.append(float(run.seconds))
    ax.fill_between(times, [*heights, heights[-1]], low - stage, step="post", **HELD)
    text = {"va": "center", "color": colours.ACTIVATIONS, "weight": "bold"}
    ax.text(last * 1.01, low - stage + height / 2, f"{run.in_flight(stage):g}", **text)


def _add_legend(figure: Figure, run: PipelineRun) -> None:
    kinds = {each.action[0] for each in run.actions}
    swatches = [Patch(label=LABELS[kind], **STYLES[kind]) for kind in STYLES if kind in kinds]
    swatches += [Patch(label="idle", **IDLE), Patch(label="activations in flight", **HELD)]
    figure.legend(handles=swatches, ncols=6, frameon=False, loc="outside upper center")


def _caption(run: PipelineRun) -> str:
    if run.complaint:
        return f"This schedule cannot be followed: {run.complaint}."
    flights = ", ".join(f"{run.in_flight(stage):g}" for stage in run.stages)
    return (
        f"{float(run.seconds):g} seconds; the stages are idle {100 * run.idle_share:.0f} % of "
        f"them. Micro-batches in flight, at most: {flights}."
    )


def draw_schedule(
    function: Callable[..., Any], num_stages: int, num_micro_batches: int, num_chunks: int = 1
) -> Picture | None:
    """Call a function that writes a schedule, and draw it; an unwritten stub is no error.

    Args:
        function: Takes the sizes and returns a list of actions for each stage.
        num_stages: Stages.
        num_micro_batches: Micro-batches.
        num_chunks: Chunks of each stage; a function is told of more than one. F, I and W of all of
            them together take one second each.

    Raises:
        TypeError: If the function returns something else.
    """
    sizes = (num_stages, num_micro_batches) + (num_chunks,) * (num_chunks > 1)
    try:
        schedule = function(*sizes)
    except NotImplementedError:
        print(f"{function.__name__}{sizes}: not written yet.")
        return None
    if not isinstance(schedule, list) or not all(isinstance(each, list) for each in schedule):
        raise TypeError(
            f"{function.__name__} should return a list of lists of actions, one for each stage, "
            f"and returned {str(schedule)[:60]}"
        )
    share = Fraction(1, num_chunks)
    seconds = PassSeconds(forward=share, input_gradient=share, weight_gradient=share)
    placement = Placement(num_stages, num_chunks)
    return pipeline_timeline(simulate_pipeline(schedule, num_micro_batches, placement, seconds))
