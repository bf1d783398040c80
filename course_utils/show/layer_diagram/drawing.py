"""The drawing of a layer as one inline SVG.

>>> layer_diagram(gpt(48, 3), seq_len=5)
Layer diagram: One layer 48 wide, 1 × 5 tokens: LayerNorm, 3 heads of 16; LayerNorm, ...
"""

import html
from collections.abc import Iterator
from dataclasses import dataclass

from course_utils import colours
from course_utils.configs import DEFAULT_KERNELS, Kernels, ModelConfig
from course_utils.show.layer_diagram import facts
from course_utils.show.layer_diagram.facts import Shown
from course_utils.show.layer_diagram.layer import LayerPass, Operation, SubLayer, Tensor, sub_layers
from course_utils.show.layer_diagram.layout import BETWEEN, LEFT, Box, lay_out
from course_utils.show.layer_diagram.svg import INK, LINE, PAPER, Point, element, label, line
from course_utils.show.picture import figure_with

FONT = "font-family: var(--jp-ui-font-family, system-ui, sans-serif)"
SMALL, SMALL_LINE = 10.5, 13.0  # pixels, of numbers under a label and between two of their lines
TO_BEND = 10.0  # pixels, between the bend of a wire and what it leads to

# What the page's script paints takes these; a bar that is not painted is empty.
PALETTE = (
    f"--ld-kept: {colours.ACTIVATIONS}; --ld-right: {colours.RIGHT}; --ld-wrong: {colours.WRONG}"
)
HALO = f"paint-order: stroke; stroke: {PAPER}; stroke-width: 4px"
BAR = f"fill: var(--ld-fill, {PAPER}); stroke: var(--ld-stroke, {colours.ACTIVATIONS})"


@dataclass(frozen=True)
class LayerDiagram:
    """A still drawing that displays itself."""

    svg: str
    caption: str

    def __repr__(self) -> str:
        """The caption, for pages without pictures."""
        return f"Layer diagram: {self.caption}"

    def _repr_html_(self) -> str:
        return figure_with(self.svg, self.caption)


def layer_diagram(  # noqa: PLR0913, PLR0917  what passes through the layer, and what is shown
    model: ModelConfig,
    num_sequences: int = 1,
    seq_len: int = 8192,
    element_bytes: int = 2,
    show: Shown = None,
    kernels: Kernels = DEFAULT_KERNELS,
    num_cached: int = 0,
) -> LayerDiagram:
    """One layer of a model: operations are boxes, tensors bars as high as their numbers per token.

    Args:
        model: Without latent attention and experts.
        num_sequences: Sequences b.
        seq_len: Tokens s of each.
        element_bytes: Bytes of a number: 2 or 4.
        show: The number on each operation: ``"flops"`` of its forward pass, ``"parameters"``, or
            ``"bytes"`` of its weights or its cache, where each tensor has its bytes too.
        kernels: How the layer is computed; without dropout.
        num_cached: Tokens of each sequence whose keys and values lie in a cache.

    Raises:
        ValueError: If the layer is of a kind that is not drawn, or ``show`` is none of these.
    """
    if show not in facts.SHOWN:
        raise ValueError(f"layer_diagram: show must be one of {facts.SHOWN}, got {show!r}")
    run = LayerPass(model, num_sequences, seq_len, element_bytes, kernels, num_cached)
    return draw(run, show)


def draw(run: LayerPass, show: Shown = None, is_clickable: bool = False) -> LayerDiagram:
    """Draw one layer; in a clickable drawing every part is a button with a label."""
    layers = sub_layers(run)
    drawing = _Drawing(run, layers, show, is_clickable)
    caption = facts.summary(run, layers, show, drawing.cut_bars)
    return LayerDiagram(drawing.svg(caption), caption)


class _Drawing:
    """What the shapes of one drawing depend on."""

    def __init__(
        self, run: LayerPass, layers: tuple[SubLayer, ...], show: Shown, is_clickable: bool
    ) -> None:
        self._run, self._layers, self._show, self._is_clickable = run, layers, show, is_clickable
        self._layout = lay_out(run, layers)
        self._boxes = self._layout.boxes

    @property
    def cut_bars(self) -> list[str]:
        """Names of tensors whose bars would be higher to scale."""
        return [name for name, box in self._boxes.items() if box.is_cut]

    def svg(self, caption: str) -> str:
        """The whole drawing, with its text alternative."""
        width, height = self._layout.width, self._layout.edges[-1][1]
        size = f"display: block; width: 100%; max-width: {width:.0f}px"
        lines = element("g", *self._wires(), *self._residuals(), fill="none", style=LINE,
                        stroke_width=1.4, stroke_opacity=0.5)  # fmt: skip
        return element(
            "svg",
            lines,
            *self._parts(),
            viewBox=f"0 0 {width:.0f} {height:.0f}",
            role="group" if self._is_clickable else "img",
            aria_label=caption,
            font_size=13,
            text_anchor="middle",
            style=f"{INK}; {FONT}; {PALETTE}; {size}",
        )

    def _parts(self) -> Iterator[str]:
        """Operations and tensors in the order of the forward pass: so does Tab walk over them."""
        for layer in self._layers:
            drawn = {each.name for each in layer.tensors}
            yield self._tensor(layer.entry)
            for each in layer.operations:
                yield self._operation(each)
                made = (each.aside, each.makes)
                yield from (self._tensor(out) for out in made if out and out.name in drawn)

    def _wires(self) -> Iterator[str]:
        """From what is read to what reads it, and on to what it makes; residuals apart."""
        for each in (each for layer in self._layers for each in layer.operations):
            box = self._boxes[each.name]
            residual = [layer.entry for layer in self._layers if each is layer.addition]
            for read in (read for read in each.reads if read not in residual):
                yield _joined(self._boxes[read.name], box, has_arrow=True)
            if not residual:
                yield _joined(box, self._boxes[each.makes.name])
            if each.aside:
                below = self._boxes[each.aside.name].top
                yield line([(box.x, box.bottom), (box.x, below)], stroke_dasharray="3 3")

    def _residuals(self) -> Iterator[str]:
        """From each input over its row to the sum, and from there to the next row or out."""
        right = self._layout.width
        for layer, (top, bottom) in zip(self._layers, self._layout.edges, strict=True):
            x, add = self._boxes[layer.entry.name], self._boxes[layer.addition.name]
            yield line([(x.x, x.top), (x.x, top), (add.x, top), (add.x, add.top)])
            after = self._boxes.get(layer.addition.makes.name)
            way: list[Point] = [(add.x + add.half_width, add.y), (right, add.y)]
            if after:
                edge, below, start = right - 14, bottom + BETWEEN / 2, LEFT - 28
                way[1:] = [(edge, add.y), (edge, below), (start, below), (start, after.y)]
                way.append((after.x - after.half_width, after.y))
            yield line(way, has_arrow=True)

    def _tensor(self, tensor: Tensor) -> str:
        box = self._boxes[tensor.name]
        below = max(box.bottom, box.y + 8) + 15
        small = facts.below_bar(self._run, tensor, self._show)
        parts = [
            element("rect", **box.sides, rx=2, stroke_width=1.6, style=BAR, class_="ld-bar"),
            element("text", label(tensor.label), x=box.x, y=below, style=HALO, font_style="italic"),
            element("text", small, x=box.x, y=below + 14, style=HALO, font_size=SMALL),
        ]
        if box.is_cut:
            parts.append(_cut(box))
        if self._is_clickable:
            hit = Box(box.x, (box.top + below + 14) / 2, 21, (below + 22 - box.top) / 2)
            parts.append(element("rect", **hit.sides, rx=4, fill="transparent", class_="ld-hit"))
            parts.append(element("text", x=box.x + 14, y=box.top, style=HALO, class_="ld-mark"))
        return self._group("tensor", tensor.name, facts.of_tensor(self._run, tensor), *parts)

    def _operation(self, operation: Operation) -> str:
        box, words = self._boxes[operation.name], label(operation.label)
        corner = box.half_width if box.is_round else 6
        look = element("rect", **box.sides, rx=corner, fill=operation.colour, fill_opacity=0.3,
                       style=LINE, stroke_opacity=0.6, class_="ld-box")  # fmt: skip
        parts = [look]
        raised = 0 if box.is_round or self._show is None else 7
        parts.append(element("text", words, x=box.x, y=box.y + 4.5 - raised))
        if self._show:
            below = box.bottom + 13 if box.is_round else box.y + 13
            number = facts.on_box(self._run, operation, self._show)
            for line_number, words in enumerate(number.splitlines()):
                y = below + SMALL_LINE * line_number
                parts.append(element("text", words, x=box.x, y=y, font_size=SMALL))
        text = facts.of_operation(self._run, operation)
        return self._group("operation", operation.name, text, *parts)

    def _group(self, kind: str, name: str, text: str, *parts: str) -> str:
        """A part with its facts as a tooltip, and as a label where it is a button."""
        button: dict[str, str | float] = {}
        if self._is_clickable:
            button = {"tabindex": 0, "role": "button", "aria_label": text}
            button |= {"aria_pressed": "false"} if kind == "tensor" else {}
        title = element("title", html.escape(text))
        return element("g", title, *parts, class_=f"ld-{kind}", data_name=name, **button)


def _joined(start: Box, end: Box, has_arrow: bool = False) -> str:
    """A wire between the facing edges of two boxes; a high box takes it at any height."""
    left, right = start.x + start.half_width, end.x - end.half_width
    if end.top < start.y < end.bottom:
        return line([(left, start.y), (right, start.y)], has_arrow)
    bend = right - TO_BEND
    return line([(left, start.y), (bend, start.y), (bend, end.y), (right, end.y)], has_arrow)


def _cut(box: Box) -> str:
    """Two strokes across a bar that would be higher to scale."""
    strokes = (f"M{box.x - 11:.1f} {box.y + y:.1f}l22 -8" for y in (2, 8))
    return element("path", d="".join(strokes), style=LINE, stroke_width=1.4)
