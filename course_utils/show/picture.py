"""A figure that displays itself as SVG: sharp at any size, in the colours of the page around it.

Black becomes the page's own text colour and the paper is transparent, so the same figure can be
read on a light page and on a dark one; every other colour has a meaning and stays.
"""

import base64
import hashlib
import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from course_utils import colours

DOTS_PER_INCH = 100
WIDTH = 9.8  # inches: 980 pixels, the width of a page
MAX_SVG_BYTES = 100_000  # a drawing with more points than that holds is shown as a PNG
INK = "var(--jp-ui-font-color1, currentColor)"
# Coordinates of a label: a value on one axis, and an end of the other.
AT_TOP, AT_LEFT = ("data", "axes fraction"), ("axes fraction", "data")
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DRAWING: Any = {
    "svg.fonttype": "none",  # letters, not their outlines
    "svg.hashsalt": "course",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # as wide as each other
}


@dataclass(frozen=True)
class Picture:
    """A figure with a caption.

    Attributes:
        figure: A matplotlib figure, drawn without pyplot, which would keep global state.
        caption: One sentence that says what to see; also the figure's alternative text.
    """

    figure: Figure
    caption: str

    def png(self) -> bytes:
        """The figure as a PNG on white paper, the same bytes for the same drawing."""
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        return buffer.getvalue()

    def svg(self) -> str:
        """The figure as an SVG element for a page, the same text for the same drawing."""
        buffer = io.StringIO()
        with mpl.rc_context(DRAWING):
            self.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        return self._on_the_page(buffer.getvalue())

    def _on_the_page(self, drawn: str) -> str:
        """Take what belongs to a file of its own out of a drawing, and bind it to the page."""
        groups = drawn[drawn.index("</defs>") + len("</defs>") :]  # after what styles all elements
        groups = re.sub(r">\n\s*<", "><", groups).replace("\n", " ").strip()
        groups = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), groups)
        groups = re.sub(r'<g id="[^"]*">', "<g>", groups).replace(colours.MEASURED, INK)
        # JupyterLab detaches cells that are far away: no figure may use an id of another one.
        salt = hashlib.sha256(groups.encode()).hexdigest()[:8]
        groups = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{salt}-", groups)
        width, height = (72 * inches for inches in self.figure.get_size_inches())
        return (
            f'<svg role="img" aria-label="{html.escape(self.caption)}" xml:space="preserve" '
            f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'viewBox="0 0 {width:g} {height:g}" style="display: block; width: 100%; '
            f"max-width: {width * DOTS_PER_INCH / 72:.0f}px; fill: {INK}; "
            f'stroke-linejoin: round; stroke-linecap: butt">{groups}'
        )

    def __repr__(self) -> str:
        """The caption, for pages without pictures."""
        return f"Picture: {self.caption}"

    def _repr_html_(self) -> str:
        caption, drawing = html.escape(self.caption), self.svg()
        if len(drawing) > MAX_SVG_BYTES:
            data = base64.b64encode(self.png()).decode()
            drawing = (
                f'<img alt="{caption}" style="max-width: 100%" src="data:image/png;base64,{data}">'
            )
        return figure_with(drawing, self.caption)


def figure_with(drawing: str, caption: str) -> str:
    """A drawing with its caption, for a page."""
    return (
        f'<figure style="margin: 0 0 1em">{drawing}'
        f'<figcaption style="line-height: 1.4">{html.escape(caption)}</figcaption></figure>'
    )


def axes(width: float = WIDTH, height: float = 3.2) -> tuple[Figure, Any]:
    """A new figure and its axes, in the course's style: no frame at the top and right."""
    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def axes_beside(height: float, ratios: Sequence[float], **options: Any) -> tuple[Figure, list[Any]]:
    """A new figure with axes side by side, as wide as the ratios say, in the course's style."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    all_axes = figure.subplots(1, len(ratios), width_ratios=ratios, squeeze=False, **options)[0]
    for ax in all_axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, list(all_axes)


def log_ticks(ax: Any, sizes: Sequence[int]) -> None:
    """Make the x-axis logarithmic, with a tick at each of some sizes and at nothing else."""
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, [f"{each:,}" for each in sizes])
    ax.minorticks_off()


def note(ax: Any, text: str, at: tuple[float, float], offset: tuple[int, int], **look: Any) -> None:
    """Write a text so many points to the right of a place, and above it."""
    ax.annotate(text, at, xytext=offset, textcoords="offset points", **look)


def legend_above(ax: Any, num_columns: int, *handles: Any) -> None:
    """A legend in columns above the axes: of some handles, or of all that is labelled."""
    given = {"handles": handles} if handles else {}
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    ax.legend(**given, ncols=num_columns, frameon=False, **place)


def text_on(colour: str) -> str:
    """The colour of a text on a coloured area: the same on light and on dark pages."""
    red, green, blue = to_rgb(colour)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue  # ITU-R BT.601
    return colours.ON_BRIGHT if luma > 0.5 else colours.ON_DARK


def power_of_two(exponent: float) -> str:
    """A power of two as it is written: ``2⁻¹⁴``."""
    return f"2{f'{exponent:.0f}'.translate(RAISED)}"
