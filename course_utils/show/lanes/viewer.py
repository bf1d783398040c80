"""Lanes of a trace on a page: Python draws what is in view, the page's script moves the view."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course_utils.show.lanes.drawing import LEFT, ROW, TOP, Lanes, duration
from course_utils.show.picture import figure_with
from course_utils.traces import Event

HERE = Path(__file__).parent
KEYS = "Click an event, or ↑ ↓ for what runs in the middle; + and − zoom, ← → move, 0 shows all."


class LaneViewer(anywidget.AnyWidget):
    """Lanes to look at, as near as one likes.

    Attributes:
        view: From when to when they are drawn, in nanoseconds.
        pointed: Row and moment that the student points at.
        facts: What ran there, in words.
    """

    _esm = HERE / "lanes.js"
    _css = HERE / "lanes.css"
    svg = traitlets.Unicode().tag(sync=True)
    whole = traitlets.List(traitlets.Float()).tag(sync=True)
    view = traitlets.List(traitlets.Float()).tag(sync=True)
    pointed = traitlets.List(traitlets.Float()).tag(sync=True)
    facts = traitlets.Unicode(KEYS).tag(sync=True)
    sizes = traitlets.Dict({"left": LEFT, "top": TOP, "row": ROW}).tag(sync=True)

    def __init__(self, lanes: Lanes) -> None:
        """Draw all of the trace."""
        self._lanes = lanes
        whole = list(map(float, lanes.whole))
        super().__init__(svg=lanes.svg(*whole, role="group"), whole=whole, view=whole)

    @traitlets.observe("view")
    def _draw(self, _: object) -> None:
        start, end = self.view
        self.svg = self._lanes.svg(start, max(end, start + 1), role="group")

    @traitlets.observe("pointed")
    def _tell(self, _: object) -> None:
        row, moment = self.pointed
        self.facts = self._lanes.at(int(row), moment)

    def __repr__(self) -> str:
        """The text that a page without pictures shows."""
        return f"Lanes: {self._lanes.alternative_text}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, and a still drawing of all for pages without widgets."""
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        still = figure_with(self._lanes.svg(*self._lanes.whole), self._lanes.caption)
        return {**data, "text/plain": repr(self), "text/html": still}, metadata


def trace_lanes(events: Iterable[Event], caption: str = "") -> LaneViewer:
    """Draw events as a row for each stream and thread of each rank, to zoom and move.

    Args:
        events: Of a trace or of a part of it; thousands are drawn merged.
        caption: What to see; by default how many events there are, and how long they take.

    Raises:
        ValueError: If there is no event.
    """
    lanes = Lanes(list(events), caption)
    if not lanes.events:
        raise ValueError("trace_lanes wants at least one event")
    if not caption:
        start, end = lanes.whole
        lanes = Lanes(lanes.events, f"{len(lanes.events):,} events in {duration(end - start)}.")
    return LaneViewer(lanes)
