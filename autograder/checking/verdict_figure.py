"""A small picture of a failed check: the answer's numbers over the right ones, as SVG."""

import math
from collections.abc import Iterator, Sequence

from course_utils import colours

Pair = tuple[int | float, int | float]
"""What was wanted in a case, and what came."""

WIDTH, HEIGHT, MARGIN, LABEL = 440, 110, 14, 70  # pixels
FONT_SIZE = 11
FEWEST = 3  # pairs that make a picture


def comparison(pairs: Sequence[Pair]) -> str:
    """Each number as a multiple of the measured one, from the smallest case to the largest.

    Empty where there are fewer than three cases that a logarithmic axis can show.
    """
    shown = sorted(pair for pair in pairs if all(0 < each < math.inf for each in pair))
    if len(shown) < FEWEST:
        return ""
    words = (
        f"Your numbers (crosses) as multiples of the right ones (dots) in {len(shown)} cases, "
        "from the smallest to the largest"
    )
    return (
        f'<figure style="margin: 6px 0"><svg role="img" aria-label="{words}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" style="width: 100%; max-width: {WIDTH}px">'
        f"{''.join(_marks([math.log(got) - math.log(wanted) for wanted, got in shown]))}</svg>"
        f'<figcaption style="font-size: 85%">{words}.</figcaption></figure>'
    )


def _marks(heights: Sequence[float]) -> Iterator[str]:
    """Lines at the smallest ratio, at 1 and at the largest; a dot and a cross for each case."""
    low, high = min(0.0, *heights), max(0.0, *heights)
    stretch = (HEIGHT - 2 * MARGIN) / (high - low or 1.0)

    def y_of(height: float) -> float:
        return round(HEIGHT - MARGIN - stretch * (height - low), 1)

    for height in sorted({low, 0.0, high}):
        yield (
            f'<line x1="{LABEL}" x2="{WIDTH}" y1="{y_of(height)}" y2="{y_of(height)}" '
            f'stroke="{colours.OPEN}" stroke-opacity="0.4"/>'
            f'<text x="{LABEL - 6}" y="{y_of(height) + 4}" text-anchor="end" '
            # The text colour of the page, so that it can be read on dark ones too.
            f'font-size="{FONT_SIZE}" fill="currentColor">×{math.exp(height):.3g}</text>'
        )
    across = (WIDTH - LABEL - 2 * MARGIN) / (len(heights) - 1)
    for position, height in enumerate(heights):
        x, y = round(LABEL + MARGIN + across * position, 1), y_of(height)
        colour = colours.WRONG if height else colours.RIGHT
        yield f'<circle cx="{x}" cy="{y_of(0.0)}" r="3" fill="currentColor"/>'
        yield f'<path d="M{x - 5} {y - 5}l10 10m0 -10l-10 10" stroke="{colour}" stroke-width="2"/>'
