"""Number formats: their numbers, ranges and spacings, and how they round sums."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.patches import Patch, Rectangle

from course_utils import colours
from course_utils.configs import FORMATS, NumberFormat
from course_utils.formulas.number_formats import (
    bits_of,
    largest,
    neighbours,
    rounded,
    smallest,
    smallest_normal,
)
from course_utils.show.picture import AT_LEFT, Picture, axes, power_of_two, text_on
from course_utils.show.segments import LINES

FIELDS = {"sign": colours.SIGN, "exponent": colours.EXPONENT, "mantissa": colours.MANTISSA}
SUMS = (  # the exact sum is a wide line behind the others
    {"color": colours.IDLE, "lw": 6, "alpha": 0.5},  # dashes are seen on it on dark pages too
    {"color": colours.MEASURED, "lw": 1.2, "linestyle": "--"},
    {"color": LINES[2], "lw": 2},
)
NUM_BOXES = 32  # bits of the longest number: a box is as wide in every format


def nearest_number(exponent_bits: int, mantissa_bits: int, value: str) -> Picture:
    """The bits of the number nearest to a value, and its two neighbours on a line.

    Args:
        exponent_bits: Bits of the exponent.
        mantissa_bits: Bits of the mantissa.
        value: A finite decimal number, such as ``"0.1"``.
    """
    x = float(value)
    shape = NumberFormat(num_exponent_bits=exponent_bits, num_mantissa_bits=mantissa_bits)
    nearest = rounded(x, exponent_bits, mantissa_bits)
    figure, ax = axes(height=2.4)
    ax.axis("off")
    bits = bits_of(nearest, exponent_bits, mantissa_bits)
    _draw_bits(ax, bits, shape)
    if math.isfinite(nearest):
        low, high = neighbours(nearest, exponent_bits, mantissa_bits)
        _draw_neighbours(ax, x, (low, nearest, high), _num_digits(mantissa_bits))
    else:
        _draw_overflow(ax, x, largest(shape))
    ax.set(xlim=(-0.5, NUM_BOXES + 0.5), ylim=(-0.6, 3.2))
    patches = [Patch(color=colour, label=field) for field, colour in FIELDS.items()]
    ax.legend(handles=patches, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return Picture(figure, _caption(x, nearest, shape))


def _draw_bits(ax: Any, bits: str, shape: NumberFormat) -> None:
    """Draw one box per bit, coloured by its field."""
    widths = {"sign": 1, "exponent": shape.num_exponent_bits, "mantissa": shape.num_mantissa_bits}
    fields = [field for field, width in widths.items() for _ in range(width)]
    for place, (bit, field) in enumerate(zip(bits, fields, strict=True)):
        box = Rectangle((place, 2.0), 1, 1, facecolor=FIELDS[field], edgecolor="white")
        ax.add_patch(box)
        ax.text(place + 0.5, 2.45, bit, ha="center", va="center", color=text_on(FIELDS[field]))


def _draw_neighbours(ax: Any, x: float, numbers: Sequence[float], num_digits: int) -> None:
    """Draw three numbers on a line, and mark the value between them."""
    low, middle, high = (_or_next_power(number, numbers[1]) for number in numbers)

    def place(number: float) -> float:
        return NUM_BOXES * (0.1 + 0.8 * (number - low) / (high - low))

    ax.plot([0, NUM_BOXES], [0.7, 0.7], color=colours.NEUTRAL, lw=1)
    for number, at in zip(numbers, (low, middle, high), strict=True):
        ax.plot([place(at)] * 2, [0.5, 0.9], color=colours.NEUTRAL, lw=1)
        ax.text(place(at), 0.35, _format_number(number, num_digits), ha="center", va="top")
    ax.plot([place(x)], [0.95], "v", color=colours.MEASURED)


def _draw_overflow(ax: Any, x: float, last: float) -> None:
    """Draw the largest number on a line, the value beyond it, and an arrow to infinity."""
    ends = {"color": colours.NEUTRAL, "lw": 1}
    ax.annotate("", (NUM_BOXES, 0.7), (0, 0.7), arrowprops={"arrowstyle": "->", **ends})
    ax.plot([0.25 * NUM_BOXES] * 2, [0.5, 0.9], **ends)
    ax.plot([0.65 * NUM_BOXES], [0.95], "v", color=colours.MEASURED)
    texts = {
        0.25: f"largest: {_format_number(math.copysign(last, x))}",
        0.65: _format_number(x),
        0.97: _format_number(math.copysign(math.inf, x)),
    }
    for place, text in texts.items():
        ax.text(place * NUM_BOXES, 0.35, text, ha="center", va="top")


def _or_next_power(number: float, beside: float) -> float:
    """The number, or for infinity its place on the line: the next power of two."""
    if math.isfinite(number):
        return number
    return math.copysign(2.0 ** math.frexp(beside)[1], number)


def _num_digits(mantissa_bits: int) -> int:
    """Enough digits to tell neighbours apart."""
    return 6 if mantissa_bits <= 12 else 10


def _caption(x: float, nearest: float, shape: NumberFormat) -> str:
    exponent_bits, mantissa_bits = shape.num_exponent_bits, shape.num_mantissa_bits

    def number(each: float) -> str:
        return _format_number(each, _num_digits(mantissa_bits))

    words = f"{number(x)} with {exponent_bits} bits of exponent and {mantissa_bits} of mantissa"
    if math.isinf(nearest):
        return f"{words} is infinite."
    if nearest == x:
        return f"{words} is exact."
    if nearest == 0:
        return f"{words} becomes 0."
    return f"{words} becomes {number(nearest)}: relative error {abs(nearest / x - 1):.2g}."


def _format_number(number: float, num_digits: int = 6) -> str:
    return f"{number:,.{num_digits}g}".replace("inf", "∞")


def facts_of_formats(numbers: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Range, density and spacing of formats, computed from all the numbers of each."""
    return pd.DataFrame({name: _facts(each) for name, each in numbers.items()}).T


def _facts(numbers: Sequence[float]) -> dict[str, Any]:
    finite = sorted({each for each in numbers if math.isfinite(each)})
    below_one = sum(abs(each) < 1 for each in finite)
    return {
        "largest": f"{finite[-1]:,.6g}",
        "smallest above 0": f"{min(each for each in finite if each > 0):.3g}",
        "next after 1": f"{min(each for each in finite if each > 1):.6g}",
        "from 1 up to 2": f"{sum(1 <= each < 2 for each in finite):,}",
        "between -1 and 1": f"{below_one / len(finite):.0%}",
    }


def ranges_and_spacings() -> Picture:
    """From the smallest to the largest number of every format, and its spacing above 1."""
    figure, ax = axes()
    for row, each in enumerate(reversed(FORMATS.values())):
        ends = [math.log2(f(each)) for f in (smallest, smallest_normal, largest)]
        ax.barh(row, ends[1] - ends[0], left=ends[0], color=colours.EXPONENT, alpha=0.35)
        ax.barh(row, ends[2] - ends[1], left=ends[1], color=colours.EXPONENT)
        spacing = power_of_two(-each.num_mantissa_bits)
        ax.annotate(spacing, (1.01, row), xycoords=AT_LEFT, va="center")
    ax.annotate("spacing above 1", (1.01, len(FORMATS) - 0.5), xycoords=AT_LEFT, va="bottom")
    widths = {n: f"{f.num_exponent_bits} + {f.num_mantissa_bits}" for n, f in FORMATS.items()}
    ax.set_yticks(range(len(FORMATS)), [f"{n}: {widths[n]}" for n in reversed(widths)])
    ticks = range(-150, 101, 50)
    ax.set_xticks(list(ticks), [power_of_two(tick) for tick in ticks])
    ax.set(xlim=(-160, 135), xlabel="absolute value (log scale); pale: subnormal")
    return Picture(figure, "Exponent bits set the range, mantissa bits the spacing.")


def running_sums(sums: Mapping[str, Sequence[float]], stop: float) -> Picture:
    """Running sums of the same terms in several precisions, and where the last one stalls.

    Args:
        sums: By name, the sum after one term, two terms, and so on; the first is exact.
        stop: The sum at which rounding swallows every further term in the last precision.
    """
    figure, ax = axes()
    ax.axhline(stop, color=colours.COMPUTED, lw=2, label=f"predicted stop: {stop:,.6g}")
    described = []
    exact = next(iter(sums.values()))[-1]
    for style, (name, values) in zip(SUMS, sums.items(), strict=False):
        ax.plot(range(1, len(values) + 1), values, label=name, **style)
        error = abs(values[-1] / exact - 1)
        off = f" (relative error {error:.2g})" if error else ""
        described.append(f"{name} {values[-1]:,.6g}{off}")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    for one_axis in (ax.xaxis, ax.yaxis):
        one_axis.set_major_formatter("{x:,.6g}")
    ax.minorticks_off()
    ax.set(xlabel="terms (log scale)", ylabel="sum (log scale)")
    ax.legend(frameon=False)
    terms = len(next(iter(sums.values())))
    return Picture(figure, f"After {terms:,} terms: {'; '.join(described)}.")
