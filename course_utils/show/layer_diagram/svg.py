"""Elements and lines of an inline SVG, in the colours of the page around it.

>>> element("text", "W", label("x_1"), x=2, font_size=13)
'<text x="2" font-size="13">Wx<tspan dy="3" font-size="10">1</tspan></text>'
"""

import html
from collections.abc import Sequence

# JupyterLab's variables change with its theme; other pages lend the colour of their text. Only
# styles can use variables, attributes cannot.
INK = "fill: var(--jp-ui-font-color1, currentColor)"
LINE = "stroke: var(--jp-ui-font-color1, currentColor)"
PAPER = "var(--jp-layout-color0, transparent)"
CORNER = 12.0

Point = tuple[float, float]


def element(name: str, *children: str, **attributes: str | float) -> str:
    """An element; ``font_size`` is written ``font-size``, and children are markup."""
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{''.join(children)}</{name}>"


def _value(value: str | float) -> str:
    return html.escape(value) if isinstance(value, str) else f"{value:.5g}"


def label(text: str) -> str:
    """Text in which what follows an underscore is a subscript."""
    base, _, low = html.escape(text).partition("_")
    return base + (element("tspan", low, dy=3, font_size=10) if low else "")


def line(points: Sequence[Point], has_arrow: bool = False, **attributes: str | float) -> str:
    """A line of upright and level parts with round corners."""
    path = f"M{_point(points[0])}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        path += f"L{_point(_near(corner, before))} Q{_point(corner)} {_point(_near(corner, after))}"
    drawn = element("path", d=f"{path}L{_point(points[-1])}", **attributes)
    if not has_arrow:
        return drawn
    tip = f"M{_point(points[-1])}l-6 -3.5v7z"
    return drawn + element("path", d=tip, stroke="none", fill_opacity=0.6, style=INK)


def _point(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def _near(corner: Point, other: Point) -> Point:
    """Where the arc at a corner begins: at most half of the way to the next corner."""
    (x, y), (u, v) = corner, other
    reach = min(0.5, CORNER / max(abs(u - x) + abs(v - y), CORNER))
    return x + reach * (u - x), y + reach * (v - y)
