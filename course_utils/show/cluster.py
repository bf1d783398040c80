"""Gantt charts of a step: what each rank computes, communicates and waits for, and when."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course_utils import colours
from course_utils.distributed import ClusterRun
from course_utils.quantities import SECONDS, format_seconds, unit_of
from course_utils.show.picture import AT_LEFT, Picture, axes, note

# A row has two lanes: what the device does, and below it what its links do. Each is the lower end
# and the height of its bars, relative to the row.
DEVICE_LANE, LINK_LANE = (-0.12, 0.5), (-0.38, 0.22)
STYLES: Mapping[str, Mapping[str, Any]] = {
    "forward": {"facecolor": colours.COMPUTE, "alpha": 0.55},
    "backward": {"facecolor": colours.COMPUTE},
    "named": {"facecolor": colours.COMPUTE, "alpha": 0.8},
    "communication": {"facecolor": colours.COMMUNICATION},
    "exposed": {"facecolor": "none", "edgecolor": colours.COMMUNICATION, "hatch": "////"},
    "idle": {"facecolor": colours.IDLE},
}
LABELS = {
    "forward": "compute, forward",
    "backward": "compute, backward",
    "named": "compute",
    "communication": "communication",
    "exposed": "exposed communication",
    "idle": "idle",
}
MAX_ROWS = 16

Row = tuple[str, ClusterRun, int]


def cluster_timeline(
    run: ClusterRun, ranks: Sequence[int] | None = None, *, limit_seconds: float | None = None
) -> Picture:
    """A Gantt chart: for each rank what its device does, and below it what its links do.

    Args:
        run: A run of a virtual cluster.
        ranks: Ranks to draw; by default the first 16.
        limit_seconds: Where the axis ends, to compare runs; by default at the end of the step.

    Raises:
        ValueError: If there is no such rank.
    """
    shown = list(range(min(run.num_ranks, MAX_ROWS)) if ranks is None else ranks)
    if not shown or not set(shown) <= set(range(run.num_ranks)):
        raise ValueError(f"cluster_timeline: there are ranks 0 to {run.num_ranks - 1}, got {shown}")
    figure = _draw_rows([(f"rank {rank}", run, rank) for rank in shown], limit_seconds)
    most_exposed = max(shown, key=run.exposed_seconds)
    return Picture(
        figure,
        f"{_which_ranks(shown, run.num_ranks)}The step takes {format_seconds(run.step_seconds)}; "
        f"{format_seconds(run.exposed_seconds(most_exposed))} of it are exposed communication on "
        f"rank {most_exposed}.",
    )


def cluster_timelines(runs: Mapping[str, ClusterRun]) -> Picture:
    """Rank 0 of several runs on one scale, to compare ways to communicate.

    Args:
        runs: Runs, by their labels.

    Raises:
        ValueError: If there is no run.
    """
    if not runs:
        raise ValueError("cluster_timelines: give at least one run")
    figure = _draw_rows([(name, run, 0) for name, run in runs.items()])
    described = "; ".join(
        f"{format_seconds(run.step_seconds)}, {format_seconds(run.exposed_seconds())} of it "
        f"exposed ({name})"
        for name, run in runs.items()
    )
    return Picture(figure, f"Rank 0 of each, on one scale: {described}.")


def _draw_rows(rows: Sequence[Row], limit_seconds: float | None = None) -> Figure:
    figure, ax = axes(height=1.3 + 0.4 * len(rows))
    last = max(run.step_seconds for _, run, _ in rows)
    limit = limit_seconds or last
    size, unit = unit_of(limit or 1e-3, SECONDS)
    for place, (_, run, rank) in enumerate(rows):
        _draw_row(ax, run, rank, -place, size)
    ax.set_yticks([-place for place in range(len(rows))], [label for label, _, _ in rows])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(0.5 - len(rows), 0.5 if limit_seconds is None else 0.9)
    ax.set(xlim=(0, 1.01 * limit / size if limit else 1), xlabel=f"virtual time in {unit}")
    if last > limit:
        words = f"{format_seconds(last)} →"
        note(ax, words, (1, 0.38), (0, 2), xycoords=AT_LEFT, ha="right", va="bottom")
    drawn = {name for _, run, rank in rows for name, spans in _spans(run, rank).items() if spans}
    swatches = [Patch(label=LABELS[name], **STYLES[name]) for name in STYLES if name in drawn]
    figure.legend(handles=swatches, ncols=5, frameon=False, loc="outside upper center")
    return figure


def _which_ranks(shown: Sequence[int], num_ranks: int) -> str:
    """Say which ranks are drawn, unless all are."""
    if len(shown) == num_ranks:
        return ""
    if len(shown) == 1:
        return f"Rank {shown[0]} of {num_ranks}. "
    return f"{len(shown)} of {num_ranks} ranks. "


def _spans(run: ClusterRun, rank: int) -> dict[str, list[tuple[float, float]]]:
    """Start and end of everything that a rank does, by style."""
    calls, passes = run.communications(rank), ("forward", "backward")
    named = [each for each in run.of(rank, "compute") if each.name not in passes]
    return {
        **{name: run.spans(rank, "compute", name) for name in passes},
        **({"named": [(each.start_seconds, each.end_seconds) for each in named]} if named else {}),
        "exposed": run.exposed_spans(rank),
        "idle": run.idle_spans(rank),
        "communication": [(each.start_seconds, each.end_seconds) for each in calls],
    }


def _draw_row(ax: Any, run: ClusterRun, rank: int, place: int, size: float) -> None:
    for name, spans in _spans(run, rank).items():
        low, height = LINK_LANE if name == "communication" else DEVICE_LANE
        bars = [(start / size, (end - start) / size) for start, end in spans]
        line = {"linewidth": 0.3, "edgecolor": "white"}
        ax.broken_barh(bars, (place + low, height), **{**line, **STYLES[name]})
