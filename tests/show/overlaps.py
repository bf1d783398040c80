"""Texts of a figure that lie on one another."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg

from course_utils.show import Picture


def overlaps(picture: Picture) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes overlap: labels, marks in the axes, legends."""
    canvas = FigureCanvasAgg(picture.figure)
    canvas.draw()
    texts = [text for pair in picture.figure.axes for text in _texts(pair) if text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts]
    return [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)]


def _texts(pair: Any) -> Iterator[Any]:
    yield from (pair.title, *pair.texts, pair.xaxis.label, pair.yaxis.label)
    if pair.get_legend():
        yield from pair.get_legend().get_texts()
    for axis in (pair.xaxis, pair.yaxis):
        low, high = sorted(axis.get_view_interval())
        yield from (tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)
