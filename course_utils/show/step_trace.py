"""One recorded step of DistributedDataParallel as a time line: operators, and each bucket's way."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.patches import Patch

from course_utils.quantities import format_bytes
from course_utils.reference.step_trace import ALL_REDUCE, BACKWARD
from course_utils.show.cluster import LABELS, STYLES
from course_utils.show.picture import Picture, axes

HEIGHT = 0.7  # of a bar, where a row is 1
MILLION = 10**6  # nanoseconds of a millisecond
MIN_LABEL_SHARE = 1 / 18  # of the picture's width


def step_trace_picture(record: Mapping[str, Any]) -> Picture:
    """Rows of each rank: its operators, and one for each of gloo's threads, with the bytes sent.

    Args:
        record: As `course_utils.records.ddp_step.recorded_ddp_step` gives it.
    """
    events: Mapping[int, Sequence[Mapping[str, Any]]] = record["events"]
    rows = [(rank, thread) for rank in events for thread in _threads(events[rank])]
    whole = max(each["end_ns"] for each in events[rows[0][0]]) / MILLION
    figure, ax = axes(height=1.0 + 0.42 * len(rows))
    for place, (rank, thread) in enumerate(rows):
        for each in events[rank]:
            if each["thread"] == thread and each["name"] != "c10d::allreduce_":
                _draw(ax, each, -place, whole)
    names = [f"rank {rank}, {'gloo' if thread else 'operators'}" for rank, thread in rows]
    ax.set_yticks([-place for place in range(len(rows))], names)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(left=0)
    ax.set_xlabel("ms since the first event of each rank")
    used = ("forward", "backward", "named", "communication")
    labels = {**LABELS, "named": "copies back"}
    swatches = [Patch(label=labels[name], **STYLES[name]) for name in used]
    figure.legend(handles=swatches, ncols=4, frameon=False, loc="outside upper center")
    made = f"Recorded on {record['date']} with torch {record['versions']['torch']}"
    return Picture(figure, f"{made}: two ranks in one step, and the bytes of each bucket.")


def _threads(events: Sequence[Mapping[str, Any]]) -> list[int]:
    return sorted({each["thread"] for each in events})


def _style(name: str) -> str:
    if name == ALL_REDUCE:
        return "communication"
    if name.startswith(BACKWARD):
        return "backward"
    return "named" if "copy_bucket_to_grad" in name else "forward"


def _draw(ax: Any, event: Mapping[str, Any], row: int, whole: float) -> None:
    start, end = event["start_ns"] / MILLION, event["end_ns"] / MILLION
    line = {"linewidth": 0.3, "edgecolor": "white", **STYLES[_style(event["name"])]}
    ax.broken_barh([(start, end - start)], (row - HEIGHT / 2, HEIGHT), **line)
    if event["name"] == ALL_REDUCE and end - start > MIN_LABEL_SHARE * whole:
        text = format_bytes(event["bytes"], digits=1)
        ax.annotate(text, ((start + end) / 2, row), ha="center", va="center", size=8)
