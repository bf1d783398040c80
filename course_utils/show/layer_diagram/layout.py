"""Where does each part of a layer stand in the drawing, and how large is it?

Attention runs from left to right, the feed-forward block below it. A tensor is a bar as high as its
numbers per token, to one scale in the whole drawing; only scores may be too high for it.
"""

from dataclasses import dataclass, replace

from course_utils.show.layer_diagram.layer import SCORES, LayerPass, Operation, SubLayer, Tensor

MIN_WIDTH, MIN_PITCH, LEFT, RIGHT = 980.0, 60.0, 40.0, 54.0
LARGEST_BAR, SMALLEST_BAR, LONGEST_BAR, HALF_BAR = 64.0, 3.0, 88.0, 7.0
HALF_BOX, HALF_BOX_HEIGHT, HALF_ROUND = 42.0, 20.0, 16.0
FIRST_TOP, ABOVE, LABELS, BETWEEN = 12.0, 34.0, 38.0, 40.0
MIN_LANE, TO_ASIDE = 78.0, 26.0
GAP = 13.0  # at least, between a box and a bar
MANY_INPUTS = 3


@dataclass(frozen=True)
class Box:
    """A rectangle by its centre and half its sides, in pixels; a bar may be too high to show."""

    x: float
    y: float
    half_width: float
    half_height: float
    is_cut: bool = False

    @property
    def top(self) -> float:
        """Its upper edge."""
        return self.y - self.half_height

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.half_height

    @property
    def is_round(self) -> bool:
        """Whether it is drawn as a circle."""
        return self.half_width == HALF_ROUND

    @property
    def sides(self) -> dict[str, float]:
        """Attributes of its rectangle."""
        width, height = 2 * self.half_width, 2 * self.half_height
        return {"x": self.x - self.half_width, "y": self.top, "width": width, "height": height}


@dataclass(frozen=True)
class Layout:
    """Boxes of all parts by name, and the upper and lower edge of both rows."""

    boxes: dict[str, Box]
    edges: tuple[tuple[float, float], ...]
    width: float


def lay_out(run: LayerPass, layers: tuple[SubLayer, ...]) -> Layout:
    """Find a place for every operation and tensor."""
    widths = [run.width(t) for each in layers for t in each.tensors if t.axes != SCORES]
    scale = LARGEST_BAR / max(widths)
    width = max(MIN_WIDTH, LEFT + RIGHT + MIN_PITCH * max(map(_columns, layers)))
    boxes: dict[str, Box] = {}
    edges: list[tuple[float, float]] = []
    for layer in layers:
        heights = {t.name: max(SMALLEST_BAR, scale * run.width(t)) for t in layer.tensors}
        row = _row(layer, heights, width)
        top = edges[-1][1] + BETWEEN if edges else FIRST_TOP
        middle = top + ABOVE - min(box.top for box in row.values())
        boxes |= {name: replace(box, y=middle + box.y) for name, box in row.items()}
        edges.append((top, middle + max(box.bottom for box in row.values()) + LABELS))
    return Layout(boxes, tuple(edges), width)


def _columns(layer: SubLayer) -> int:
    """Steps from the input to the addition: every stage has operations and their results."""
    return 2 * len(layer.stages) + 1


def _row(layer: SubLayer, heights: dict[str, float], width: float) -> dict[str, Box]:
    """Boxes of one sub-layer around a middle at height 0."""
    lane, pitch = _lane(layer, heights), (width - LEFT - RIGHT) / _columns(layer)

    def bar(tensor: Tensor, x: float, y: float) -> Box:
        height = heights[tensor.name]
        return Box(x, y, HALF_BAR, min(height, LONGEST_BAR) / 2, is_cut=height > LONGEST_BAR)

    boxes = {layer.entry.name: bar(layer.entry, LEFT, 0)}
    for column, stage in enumerate(layer.stages):
        x = LEFT + (2 * column + 1) * pitch
        for each in stage:
            boxes[each.name] = box = _operation(each, x, lane, pitch)
            boxes[each.makes.name] = bar(each.makes, x + pitch, box.y)
            if each.aside:
                boxes[each.aside.name] = bar(each.aside, x, box.bottom + TO_ASIDE)
    return boxes | {layer.addition.name: _operation(layer.addition, width - RIGHT, lane, pitch)}


def _lane(layer: SubLayer, heights: dict[str, float]) -> float:
    """From one lane to the next: labels end above the next bar, those of scores above a box."""
    bars = [heights[each.name] for each in layer.tensors if each.axes != SCORES]
    scores = [heights[each.name] for each in layer.tensors if each.axes == SCORES]
    to_box = min(max(scores, default=0), LONGEST_BAR) / 2 + LABELS + HALF_BOX_HEIGHT
    return max(MIN_LANE, to_box, max(bars) + LABELS + GAP)


def _operation(each: Operation, x: float, lane: float, pitch: float) -> Box:
    """A round for a symbol; what has many inputs reaches from the first lane to the last."""
    if len(each.label) == 1:
        return Box(x, each.lane * lane, HALF_ROUND, HALF_ROUND)
    half_width = min(HALF_BOX, pitch - HALF_BAR - GAP)
    half_height = HALF_BOX_HEIGHT + (lane if len(each.reads) == MANY_INPUTS else 0)
    return Box(x, each.lane * lane, half_width, half_height)
