"""What does each rank do at every moment of a step, and which communication does it wait for?"""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course_utils import colours
from course_utils.distributed import ClusterRun
from course_utils.show.picture import Picture, axes

# A row has two lanes: what the device does, and below it what its links do.
DEVICE_LANE, LINK_LANE = (-0.12, 0.5), (-0.38, 0.22)
STYLES: Mapping[str, Mapping[str, Any]] = {
    "forward": {"facecolor": colours.COMPUTE, "alpha": 0.55},
    "backward": {"facecolor": colours.COMPUTE},
    "communication": {"facecolor": colours.COMMUNICATION},
    "exposed": {"facecolor": "white", "edgecolor": colours.COMMUNICATION, "hatch": "////"},
    "idle": {"facecolor": colours.IDLE},
}
LABELS = {
    "forward": "compute, forward",
    "backward": "compute, backward",
    "communication": "communication",
    "exposed": "exposed communication",
    "idle": "idle",
}
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
MAX_ROWS = 16

Row = tuple[str, ClusterRun, int]


def cluster_timeline(run: ClusterRun, ranks: Sequence[int] | None = None) -> Picture:
    """A Gantt chart: for each rank what its device does, and below it what its links do.

    Args:
        run: Of a virtual cluster.
        ranks: Which to draw; without it all, or the first 16.

    Raises:
        ValueError: If there is no such rank.
    """
    shown = list(range(min(run.num_ranks, MAX_ROWS)) if ranks is None else ranks)
    if not shown or not set(shown) <= set(range(run.num_ranks)):
        raise ValueError(f"cluster_timeline: there are ranks 0 to {run.num_ranks - 1}, got {shown}")
    figure = _drawn([(f"rank {rank}", run, rank) for rank in shown])
    longest = max(shown, key=run.exposed_seconds)
    return Picture(
        figure,
        f"{_which(shown, run.num_ranks)}The step takes {_as_read(run.step_seconds)}. "
        f"{_told(run, longest)} "
        f"on rank {longest}, which has most communication exposed.",
    )


def cluster_timelines(runs: Mapping[str, ClusterRun], rank: int = 0) -> Picture:
    """One rank of several runs on one scale, such as of several ways to communicate.

    Args:
        runs: What stands beside each, and the run.
        rank: Which to draw.

    Raises:
        ValueError: If there is no run, or no such rank in one of them.
    """
    if not runs:
        raise ValueError("cluster_timelines: give at least one run")
    for name, run in runs.items():
        if not 0 <= rank < run.num_ranks:
            raise ValueError(f"cluster_timelines: {name!r} has no rank {rank}")
    figure = _drawn([(name, run, rank) for name, run in runs.items()])
    told = "; ".join(
        f"{name}: {_as_read(run.step_seconds)}, of which {_as_read(run.exposed_seconds(rank))} "
        f"exposed"
        for name, run in runs.items()
    )
    return Picture(figure, f"Rank {rank} of each on one scale. {told}.")


def _drawn(rows: Sequence[Row]) -> Figure:
    figure, pair = axes(width=7.0, height=1.3 + 0.38 * len(rows))
    last = max(run.step_seconds for _, run, _ in rows)
    size, unit = _unit_of(last)
    for place, (_, run, rank) in enumerate(rows):
        _draw_row(pair, run, rank, -place, size)
    pair.set_yticks([-place for place in range(len(rows))], [label for label, _, _ in rows])
    pair.tick_params(axis="y", length=0)
    pair.set_ylim(0.5 - len(rows), 0.5)
    pair.set_xlim(0, 1.01 * last / size if last else 1)
    pair.set_xlabel(f"virtual time in {unit}")
    drawn = {name for _, run, rank in rows for name, spans in _spans(run, rank).items() if spans}
    swatches = [Patch(label=LABELS[name], **STYLES[name]) for name in STYLES if name in drawn]
    figure.legend(handles=swatches, ncols=3, frameon=False, loc="outside upper center")
    return figure


def _which(shown: Sequence[int], num_ranks: int) -> str:
    """Which ranks are drawn, if it is not all."""
    if len(shown) == num_ranks:
        return ""
    if len(shown) == 1:
        return f"Rank {shown[0]} of {num_ranks}. "
    return f"{len(shown)} of {num_ranks} ranks. "


def _spans(run: ClusterRun, rank: int) -> dict[str, list[tuple[float, float]]]:
    """Start and end of all that a rank does, by its style."""
    calls = run.communications(rank)
    return {
        "forward": run.spans(rank, "compute", "forward"),
        "backward": run.spans(rank, "compute", "backward"),
        "exposed": run.exposed_spans(rank),
        "idle": run.idle_spans(rank),
        "communication": [(each.start_seconds, each.end_seconds) for each in calls],
    }


def _draw_row(pair: Any, run: ClusterRun, rank: int, place: int, size: float) -> None:
    for name, pairs in _spans(run, rank).items():
        low, height = LINK_LANE if name == "communication" else DEVICE_LANE
        bars = [(start / size, (end - start) / size) for start, end in pairs]
        line = {"linewidth": 0.3, "edgecolor": "white"}
        pair.broken_barh(bars, (place + low, height), **{**line, **STYLES[name]})


def _told(run: ClusterRun, rank: int) -> str:
    """The parts of a rank's step in words."""
    calls = run.communications(rank)
    return (
        f"Compute {_as_read(run.compute_seconds(rank))}, {len(calls):,} "
        f"{'call that communicates' if len(calls) == 1 else 'calls that communicate'} for "
        f"{_as_read(run.communication_seconds(rank))}, of which "
        f"{_as_read(run.exposed_seconds(rank))} exposed, without compute beside it, and "
        f"{_as_read(run.idle_seconds(rank))} idle"
    )


def _as_read(seconds: float) -> str:
    """As in ``73.16 ms``."""
    size, unit = _unit_of(seconds)
    return f"{seconds / size:,.2f} {unit}"


def _unit_of(seconds: float) -> tuple[float, str]:
    return next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1] if seconds else UNITS[1])
