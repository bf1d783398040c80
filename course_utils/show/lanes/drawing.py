"""Lanes of a trace as one inline SVG, in the colours of the page around it.

What runs inside another event of its lane, as an operator that another one calls, stands below it.
Events too short to see one by one shade their pixel by how much of its time was busy.
"""

import html
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from course_utils import colours
from course_utils.intervals import length
from course_utils.quantities import format_bytes, unit_of
from course_utils.show.layer_diagram.svg import INK, LINE, element
from course_utils.show.picture import text_on
from course_utils.traces import COMPUTE, Event, select
from course_utils.traces.event import spans_of
from course_utils.traces.perfetto import lanes_of

WIDTH, LEFT, TOP = 980, 134, 26  # pixels: of all, of the names, of the legend
ROW, BAR, AXIS = 18, 14, 34  # of a row, of its bars, of the axis below
MAX_DEPTH = 3  # rows of a lane; what runs deeper is not drawn
WIDE, BETWEEN = 2.0, 0.3  # narrower bars share their pixels; what parts two that touch
SHADES = 5  # of a pixel, by how much of its time was busy
LETTER, MIN_LETTERS = 6.2, 4  # width of a letter on a bar, and the fewest that are written
UNITS = ((1, "ns"), (10**3, "µs"), (10**6, "ms"), (10**9, "s"))
NUMBERED = {"gpu": "stream", "cpu": "thread"}  # what the number of a lane counts
NCCL_KERNEL = "ncclDevKernel_"  # begins the names of all, which a bar is too short for
GATHERS = ("*AllGather*", "*all_gather*", "*allgather*")
GATHER = "#f7d48f"  # a light `colours.COMMUNICATION`


class Style(NamedTuple):
    """A colour of the legend."""

    label: str
    kinds: tuple[str, ...]
    colour: str
    names: tuple[str, ...] = ("*",)


# In the order of drawing: what comes later lies above.
STYLES = (
    Style("named ranges", ("range",), colours.IDLE),
    Style("operators", ("cpu_op",), colours.COMPUTED),
    Style("calls", ("launch", "runtime"), colours.NEUTRAL),
    Style("waits", ("sync",), colours.WRONG),
    Style("compute", COMPUTE, colours.COMPUTE),
    Style("copies and fills", ("memcpy", "memset"), colours.TEMPORARIES),
    Style("communication", ("communication",), colours.COMMUNICATION),
    Style("all-gathers", ("communication",), GATHER, GATHERS),
)


@dataclass(frozen=True)
class Lanes:
    """The events of a trace, placed in rows.

    Attributes:
        events: In any order.
        caption: One sentence that says what to see.
    """

    events: Sequence[Event]
    caption: str

    @cached_property
    def rows(self) -> list[tuple[str, list[Event]]]:
        """Name and events of every row, from the top; the rows below a lane's first have none."""
        found = []
        for rank, lane in lanes_of(self.events):
            its = [e for e in self.events if (e["rank"], e["lane"]) == (rank, lane)]
            levels = _levels(its)
            found.append((f"rank {rank}, {_lane_in_words(lane)}", levels[0]))
            found += [("", level) for level in levels[1:]]
        return found

    @cached_property
    def whole(self) -> tuple[int, int]:
        """From when to when there are events, in nanoseconds."""
        starts, ends = ([each[key] for each in self.events] for key in ("start_ns", "end_ns"))
        return min(starts), max(ends)

    @cached_property
    def alternative_text(self) -> str:
        """The caption, and how much of the whole each lane was busy."""
        start, end = self.whole
        shares = (
            f"{name} busy {length(spans_of(events)) / max(end - start, 1):.0%}"
            for name, events in self.rows
            if name
        )
        return f"{self.caption} {'; '.join(shares)}."

    def svg(self, start: float, end: float, *, role: str = "img") -> str:
        """What ran between two moments, in nanoseconds."""
        rows = [
            (name, [e for e in events if e["end_ns"] >= start and e["start_ns"] <= end])
            for name, events in self.rows
        ]
        height = TOP + ROW * len(rows) + AXIS
        scale = _Scale(start, end)
        bars = "".join(_row(events, TOP + ROW * n, scale) for n, (_, events) in enumerate(rows))
        names = "".join(_name(name, n) for n, (name, _) in enumerate(rows))
        drawn = _legend(_by_style(self.events)) + names
        drawn += element("g", *_axis(scale, height - AXIS)) + element("g", bars, class_="tl-bars")
        return element(
            "svg",
            drawn,
            role=role,
            aria_label=self.alternative_text,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {height}",
            style=f"display: block; width: 100%; max-width: {WIDTH}px; font: 11px "
            f"var(--jp-ui-font-family, system-ui, sans-serif); {INK}",
        )

    def at(self, row: int, moment: float) -> str:
        """What ran in a row at a moment or, if nothing did, next to it, in words."""
        name, events = self.rows[max(0, min(row, len(self.rows) - 1))]
        if not events:
            return f"{name}: nothing"
        away = [max(e["start_ns"] - moment, moment - e["end_ns"]) for e in events]
        return in_words(events[away.index(min(away))])


def in_words(event: Event) -> str:
    """One event: where, what, when, how long, and what else is recorded of it."""
    parts = [
        f"rank {event['rank']}, {_lane_in_words(event['lane'])}: {event['name']} ({event['kind']})",
        f"from {duration(event['start_ns'])}, {duration(event['end_ns'] - event['start_ns'])} long",
    ]
    if event["bytes"]:
        parts.append(format_bytes(event["bytes"], digits=1))
    if event["launch_ns"] is not None:
        parts.append(f"{duration(event['start_ns'] - event['launch_ns'])} after its launch")
    if event["phase"]:
        parts.append(f"phase {event['phase']}")
    return ", ".join(parts)


def duration(ns: float) -> str:
    """Nanoseconds with three digits and a unit."""
    size, unit = unit_of(abs(ns), UNITS)
    return f"{ns / size:.3g} {unit}"


def _lane_in_words(lane: str) -> str:
    """What a lane is, as ``stream 7`` for ``gpu:7``."""
    place, _, number = lane.partition(":")
    return f"{NUMBERED[place]} {number}" if number.isdigit() else lane


def _by_style(events: Iterable[Event]) -> dict[Style, list[Event]]:
    """Events by how they are drawn: by the last style that fits."""
    left, found = list(events), dict[Style, list[Event]]()
    for style in reversed(STYLES):
        found[style] = select(left, kind=style.kinds, name=style.names)
        chosen = {id(each) for each in found[style]}
        left = [each for each in left if id(each) not in chosen]
    return {style: found[style] for style in STYLES if found[style]}


class _Scale(NamedTuple):
    start: float
    end: float

    def x(self, moment: float) -> float:
        """Where a moment is, kept near the picture."""
        share = (moment - self.start) / (self.end - self.start)
        return LEFT + (WIDTH - LEFT) * max(0.0, min(share, 1.0))


def _levels(events: Iterable[Event]) -> list[list[Event]]:
    """The events by how many others of the lane they run in."""
    levels: list[list[Event]] = [[]]
    ends = list[int]()
    for event in sorted(events, key=lambda each: (each["start_ns"], -each["end_ns"])):
        while ends and ends[-1] < event["end_ns"]:
            ends.pop()
        if len(ends) < MAX_DEPTH:
            if len(ends) == len(levels):
                levels.append([])
            levels[len(ends)].append(event)
        ends.append(event["end_ns"])
    return levels


def _row(events: Sequence[Event], top: float, scale: _Scale) -> str:
    drawn = ""
    for style, its in _by_style(events).items():
        wide, shades = _bars(its, scale)
        for shade, bars in shades.items():
            path = "".join(f"M{x:.1f} {top}h{w:.1f}v{BAR}h-{w:.1f}z" for x, w in bars)
            drawn += element("path", d=path, fill=style.colour, fill_opacity=shade / SHADES)
        drawn += "".join(_text(*bar, top, style.colour) for bar in wide)
    return drawn


def _bars(
    events: Iterable[Event], scale: _Scale
) -> tuple[list[tuple[float, float, str]], dict[int, list[tuple[float, float]]]]:
    """Left edge, width and name of wide bars, and left edge and width of all by their shade."""
    wide, busy = list[tuple[float, float, str]](), defaultdict[int, float](float)
    for event in events:
        x = scale.x(event["start_ns"])
        width = scale.x(event["end_ns"]) - x
        if width >= WIDE:
            wide.append((x, width, event["name"]))
        else:
            busy[int(x)] += width
    shades = defaultdict[int, list[tuple[float, float]]](list)
    shades[SHADES] += [(x, width - BETWEEN) for x, width, _ in wide]
    of_pixels = ((x, _shade(busy[x])) for x in sorted(busy))
    for (_, shade), run in groupby(enumerate(of_pixels), lambda p: (p[1][0] - p[0], p[1][1])):
        pixels = [x for _, (x, _) in run]
        shades[shade].append((pixels[0], len(pixels)))
    return wide, {shade: bars for shade, bars in shades.items() if bars}


def _shade(busy: float) -> int:
    """How dark a pixel is that was busy for a part of its time: the least is seen too."""
    return max(1, min(round(SHADES * busy), SHADES))


def _text(x: float, width: float, name: str, top: float, colour: str) -> str:
    """As many letters of the name as there is room for."""
    room = int((width - 6) / LETTER)
    if room < MIN_LETTERS:
        return ""
    name = name.removeprefix(NCCL_KERNEL)
    text = name if len(name) <= room else f"{name[: room - 1]}…"
    style = f"fill: {text_on(colour)}; pointer-events: none"
    return element("text", html.escape(text), x=x + 3, y=top + 11, style=style)


def _name(name: str, row: int) -> str:
    if not name:
        return ""
    return element("text", name, x=LEFT - 8, y=TOP + ROW * row + 11, text_anchor="end")


def _legend(styles: Iterable[Style]) -> str:
    drawn, x = "", float(LEFT)
    for style in styles:
        drawn += element("rect", x=x, y=5, width=12, height=10, fill=style.colour)
        drawn += element("text", style.label, x=x + 16, y=14)
        x += 34 + 6 * len(style.label)
    return drawn


def _axis(scale: _Scale, y: float) -> Iterator[str]:
    """Ticks at round moments, and below them what they count."""
    size, unit = unit_of((scale.end - scale.start) / 2, UNITS)
    step = _round_step((scale.end - scale.start) / 8)
    yield element("path", d=f"M{LEFT} {y}H{WIDTH}", style=LINE, stroke_opacity=0.5)
    for number in range(math.ceil(scale.start / step), math.floor(scale.end / step) + 1):
        x = scale.x(number * step)
        yield element("path", d=f"M{x:.1f} {TOP}V{y + 4}", style=LINE, stroke_opacity=0.15)
        text = f"{number * step / size:g}"
        anchor = "end" if x > WIDTH - 12 else "middle"
        yield element("text", text, x=x, y=y + 15, text_anchor=anchor)
    middle = (LEFT + WIDTH) / 2
    yield element("text", f"time in {unit}", x=middle, y=y + 29, text_anchor="middle")


def _round_step(ns: float) -> float:
    """The next larger of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(ns, 1.0)))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= ns)
