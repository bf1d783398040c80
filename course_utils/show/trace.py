"""A profiler's trace as a picture: what ran when, and inside of what."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from course_utils import colours
from course_utils.instruments import Profile
from course_utils.show.picture import Picture, axes

HEIGHT = 0.8  # of a bar, where a lane is 1
MIN_SHARE = 1 / 2000  # of the picture's width; shorter events are not drawn
MIN_LABEL_SHARE = 1 / 14
WRAPPERS = ("aten::linear", "aten::matmul")
KINDS = {
    "named ranges": colours.IDLE,
    "matrix products": colours.FEED_FORWARD,
    "attention": colours.ATTENTION_CORE,
    "other operators": colours.TEMPORARIES,
}


class _Bar(NamedTuple):
    name: str
    start: float
    width: float
    lane: int

    @property
    def kind(self) -> str:
        """The legend's word for it."""
        if not self.name.startswith("aten::"):
            return "named ranges"
        if "mm" in self.name:
            return "matrix products"
        return "attention" if "attention" in self.name else "other operators"


def trace_picture(profile: Profile, num_lanes: int = 3) -> Picture:
    """The events of a profile in milliseconds; an event that another one calls is a lane below.

    Args:
        profile: Of a call on the CPU.
        num_lanes: How many lanes are drawn; deeper calls are left out.
    """
    bars = [each for each in _bars(profile) if each.lane < num_lanes]
    whole = max(each.start + each.width for each in bars)
    figure, ax = axes(height=0.9 + 0.42 * num_lanes)
    drawn = [each for each in bars if each.width > MIN_SHARE * whole]
    for kind, colour in KINDS.items():
        some = [each for each in drawn if each.kind == kind]
        for lane in range(num_lanes):
            spans = [(each.start, each.width) for each in some if each.lane == lane]
            if spans:
                ax.broken_barh(spans, (-lane - HEIGHT, HEIGHT), facecolors=colour)
        if some:
            ax.barh([0], [0], color=colour, label=kind)
    for each in drawn:
        if each.kind == "named ranges" and each.width > MIN_LABEL_SHARE * whole:
            middle = (each.start + each.width / 2, -each.lane - HEIGHT / 2)
            ax.annotate(
                each.name, middle, ha="center", va="center", size=8, color=colours.ON_BRIGHT
            )
    ax.set_xlim(0, whole)
    ax.set_ylim(-num_lanes, 0.1)
    ax.set_yticks([])
    ax.set_xlabel("milliseconds since the first event")
    ax.legend(ncols=4, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return Picture(figure, f"{len(bars):,} events; what an event calls stands below it.")


def _bars(profile: Profile) -> Iterator[_Bar]:
    """The events in order, each in the lane below those that it runs in."""
    events = sorted(
        (each for each in profile.trace["traceEvents"] if _is_drawn(each)),
        key=lambda each: (each["ts"], -each["dur"]),
    )
    origin, ends = events[0]["ts"], list[float]()
    for each in events:
        while ends and ends[-1] <= each["ts"]:
            ends.pop()
        start, width = (value / 1000 for value in (each["ts"] - origin, each["dur"]))
        yield _Bar(each["name"], start, width, len(ends))
        ends.append(each["ts"] + each["dur"])


def _is_drawn(event: dict[str, Any]) -> bool:
    """Operators and named ranges, but neither autograd's nodes nor what only calls a product."""
    if event.get("ph") != "X" or event.get("cat") not in ("cpu_op", "user_annotation"):
        return False
    is_operator = event["name"].startswith("aten::") and event["name"] not in WRAPPERS
    return is_operator or event["cat"] == "user_annotation"
