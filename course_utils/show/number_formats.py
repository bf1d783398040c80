"""Which numbers does a format have, how far do they reach, and what do sums make of them?"""

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
from course_utils.show.picture import Picture, axes
from course_utils.show.segments import LINES

FIELDS = {"sign": colours.SIGN, "exponent": colours.EXPONENT, "mantissa": colours.MANTISSA}
SUMS = (  # the exact one is seen behind the others
    {"color": "#cccccc", "lw": 6},
    {"color": colours.MEASURED, "lw": 1.2, "linestyle": "--"},
    {"color": LINES[2], "lw": 2},
)
TEXT = {"sign": "black", "exponent": "white", "mantissa": "black"}


def nearest_number(exponent_bits: int, mantissa_bits: int, value: str) -> Picture:
    """The bits of the number nearest to a value, and its two neighbours on a line.

    Args:
        exponent_bits: Bits of the exponent.
        mantissa_bits: Bits of the mantissa.
        value: A finite number as one writes it, such as ``"0.1"``.
    """
    x = float(value)
    nearest = rounded(x, exponent_bits, mantissa_bits)
    figure, pair = axes(width=6.4, height=2.2)
    pair.axis("off")
    bits = bits_of(nearest, exponent_bits, mantissa_bits)
    fields = ["sign"] + ["exponent"] * exponent_bits + ["mantissa"] * mantissa_bits
    for place, (bit, field) in enumerate(zip(bits, fields, strict=True)):
        box = Rectangle((place, 2.0), 1, 1, facecolor=FIELDS[field], edgecolor="white")
        pair.add_patch(box)
        pair.text(place + 0.5, 2.45, bit, ha="center", va="center", color=TEXT[field])
    whole = max(len(bits), 12)
    if math.isfinite(nearest):
        around = neighbours(nearest, exponent_bits, mantissa_bits)
        numbers = [around[0], nearest, around[1]]
        _draw_line(pair, x, numbers, whole, _num_digits(mantissa_bits))
    else:
        _draw_way_to_infinity(pair, x, _largest(exponent_bits, mantissa_bits), whole)
    pair.set_xlim(-0.5, whole + 0.5)
    pair.set_ylim(-0.6, 3.2)
    patches = [Patch(color=colour, label=field) for field, colour in FIELDS.items()]
    pair.legend(
        handles=patches, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0)
    )
    return Picture(figure, _told(x, nearest, exponent_bits, mantissa_bits))


def _draw_line(pair: Any, x: float, numbers: Sequence[float], width: int, num_digits: int) -> None:
    """Three numbers on a line, and the value as a mark between them."""
    low, middle, high = (_or_next_power(number, numbers[1]) for number in numbers)

    def place(number: float) -> float:
        return width * (0.1 + 0.8 * (number - low) / (high - low))

    pair.plot([0, width], [0.7, 0.7], color=colours.NEUTRAL, lw=1)
    for number, at in zip(numbers, (low, middle, high), strict=True):
        pair.plot([place(at)] * 2, [0.5, 0.9], color=colours.NEUTRAL, lw=1)
        pair.text(place(at), 0.35, _number(number, num_digits), ha="center", va="top")
    pair.plot([place(x)], [0.95], "v", color=colours.MEASURED)


def _draw_way_to_infinity(pair: Any, x: float, last: float, width: int) -> None:
    """The largest number on a line, the value beyond it, and an arrow to infinity."""
    ends = {"color": colours.NEUTRAL, "lw": 1}
    pair.annotate("", (width, 0.7), (0, 0.7), arrowprops={"arrowstyle": "->", **ends})
    pair.plot([0.25 * width] * 2, [0.5, 0.9], **ends)
    pair.text(
        0.25 * width, 0.35, f"largest: {_number(math.copysign(last, x))}", ha="center", va="top"
    )
    pair.plot([0.65 * width], [0.95], "v", color=colours.MEASURED)
    pair.text(0.65 * width, 0.35, _number(x), ha="center", va="top")
    pair.text(0.97 * width, 0.35, _number(math.copysign(math.inf, x)), ha="center", va="top")


def _largest(exponent_bits: int, mantissa_bits: int) -> float:
    shape = NumberFormat(num_exponent_bits=exponent_bits, num_mantissa_bits=mantissa_bits)
    return largest(shape)


def _or_next_power(number: float, beside: float) -> float:
    """A place on the line for infinity: the power of two that would follow."""
    if math.isfinite(number):
        return number
    return math.copysign(2.0 ** math.frexp(beside)[1], number)


def _num_digits(mantissa_bits: int) -> int:
    """So many that neighbours look different."""
    return 6 if mantissa_bits <= 12 else 10


def _told(x: float, nearest: float, exponent_bits: int, mantissa_bits: int) -> str:
    def number(each: float) -> str:
        return _number(each, _num_digits(mantissa_bits))

    shape = NumberFormat(num_exponent_bits=exponent_bits, num_mantissa_bits=mantissa_bits)
    words = f"{number(x)} with {exponent_bits} bits of exponent and {mantissa_bits} of mantissa"
    if math.isinf(nearest):
        found = f"{words} is infinite."
    elif nearest == x:
        found = f"{words} is exact."
    elif nearest == 0:
        found = f"{words} becomes 0."
    else:
        found = f"{words} becomes {number(nearest)}, off by {abs(nearest / x - 1):.2g} of it."
    if math.isfinite(nearest):
        low, high = neighbours(nearest, exponent_bits, mantissa_bits)
        found += f" Its neighbours are {number(low)} and {number(high)}."
    return (
        f"{found} Above zero the format reaches from {_number(smallest(shape))} to "
        f"{_number(largest(shape))}; the spacing above 1 is {_number(2.0**-mantissa_bits)}."
    )


def _number(number: float, num_digits: int = 6) -> str:
    return f"{number:,.{num_digits}g}".replace("inf", "∞")


def facts_of_formats(numbers: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Ends of the range, density and spacing of formats, from all the numbers of each."""
    return pd.DataFrame({name: _facts(each) for name, each in numbers.items()}).T


def _facts(numbers: Sequence[float]) -> dict[str, Any]:
    finite = sorted({each for each in numbers if math.isfinite(each)})
    below_one = sum(abs(each) < 1 for each in finite)
    return {
        "largest": f"{finite[-1]:,.6g}",
        "smallest above 0": f"{min(each for each in finite if each > 0):.3g}",
        "next after 1": f"{min(each for each in finite if each > 1):.6g}",
        "from 1 up to 2": sum(1 <= each < 2 for each in finite),
        "between -1 and 1": f"{below_one / len(finite):.0%}",
    }


def ranges_and_spacings() -> Picture:
    """From the smallest to the largest number of every format, and its spacing above 1."""
    figure, pair = axes(width=6.4, height=3.2)
    told = []
    for row, (name, each) in enumerate(reversed(FORMATS.items())):
        ends = [math.log2(f(each)) for f in (smallest, smallest_normal, largest)]
        pair.barh(row, ends[1] - ends[0], left=ends[0], color=colours.EXPONENT, alpha=0.35)
        pair.barh(row, ends[2] - ends[1], left=ends[1], color=colours.EXPONENT)
        pair.text(140, row, f"$2^{{-{each.num_mantissa_bits}}}$", va="center")
        told.append(f"{name} from 2^{ends[0]:.0f} to {_number(largest(each))}")
    pair.text(140, len(FORMATS) - 0.45, "spacing\nabove 1", va="bottom")
    pair.set_yticks(
        range(len(FORMATS)),
        [
            f"{n}: {f.num_exponent_bits} + {f.num_mantissa_bits}"
            for n, f in reversed(FORMATS.items())
        ],
    )
    ticks = range(-150, 101, 50)
    pair.set_xticks(list(ticks), [f"$2^{{{tick}}}$" for tick in ticks])
    pair.set_xlim(-160, 135)
    pair.set_xlabel("size of a number (log scale); pale: subnormal")
    caption = (
        f"Above zero, {'; '.join(reversed(told))}. The exponent's bits set the range, those of "
        "the mantissa the spacing."
    )
    return Picture(figure, caption)


def running_sums(sums: Mapping[str, Sequence[float]], stop: float) -> Picture:
    """Running sums of the same terms in several precisions, and where one of them has to stop.

    Args:
        sums: By name, the sum after one term, two terms, and so on; the first is the exact one.
        stop: No term can change a sum of this size in the last of them.
    """
    figure, pair = axes(height=3.0)
    pair.axhline(stop, color=colours.COMPUTED, lw=2, label="predicted stop")
    told = []
    exact = next(iter(sums.values()))[-1]
    for style, (name, values) in zip(SUMS, sums.items(), strict=False):
        pair.plot(range(1, len(values) + 1), values, label=name, **style)
        off = abs(values[-1] / exact - 1)
        told.append(f"{name} {values[-1]:,.6g}" + (f" (off by {off:.2g} of it)" if off else ""))
    pair.set_xscale("log", base=2)
    pair.set_yscale("log", base=2)
    for one_axis in (pair.xaxis, pair.yaxis):
        one_axis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    pair.minorticks_off()
    pair.set_xlabel("terms (log scale)")
    pair.set_ylabel("sum (log scale)")
    pair.legend(frameon=False)
    terms = len(next(iter(sums.values())))
    return Picture(
        figure, f"After {terms:,} terms: {'; '.join(told)}. The predicted stop is {stop:,.6g}."
    )
