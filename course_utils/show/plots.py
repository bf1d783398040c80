"""Figures that several units share."""

from collections.abc import Sequence
from typing import Any

from course_utils import colours
from course_utils.quantities import format_bytes
from course_utils.show.picture import Picture, axes, text_on

FEW = 1000  # values from one to so many are ticks themselves
MAX_TICKS = 8
MIN_TICK_DISTANCE = 1 / 8  # of the length of an axis that starts at zero
AXIS_GB = 1200  # where the axis of `same_bytes_two_numbers` ends, whatever the model
LONG_GB = 1000  # beside longer bars there is no room for a number


def computed_and_measured(  # noqa: PLR0913  two labels and a scale beside three rows of numbers
    sizes: Sequence[int],
    computed: Sequence[float],
    measured: Sequence[float | None],
    *,
    size_label: str,
    unit: str,
    is_log: bool = True,
    message: str = "",
) -> Picture:
    """A formula as a line and the measurements as dots, over one size.

    Args:
        sizes: The size that varies.
        computed: The formula's value for each size.
        measured: The measurement for each size; None where there is none.
        size_label: What the size counts.
        unit: Of bytes, such as ``"bytes kept"``, with ticks in KiB to TiB, or any other, with ticks
            at powers of ten; values from 1 to 1,000 are ticks themselves.
        is_log: Whether both axes are logarithmic; linear ones start at zero.
        message: A sentence to add to the caption.
    """
    figure, ax = axes()
    ax.plot(sizes, computed, color=colours.COMPUTED, label="computed")
    dots = {size: each for size, each in zip(sizes, measured, strict=True) if each is not None}
    as_dots = {"color": colours.MEASURED, "label": "measured", "clip_on": False}
    ax.plot(list(dots), list(dots.values()), "o", **as_dots)
    ax.set(xscale="log", yscale="log") if is_log else ax.set(xlim=(0, None), ylim=(0, None))
    x_ticks = list(dots) if is_log else _apart(list(dots))
    ax.set_xticks(x_ticks, [f"{size:,}" for size in x_ticks])
    _set_y_ticks(ax, computed, unit, is_log)
    ax.minorticks_off()
    scale = " (log scale)" if is_log else ""
    ax.set(xlabel=size_label + scale, ylabel=unit + scale)
    ax.legend(frameon=False)
    on_line = sum(c == m for c, m in zip(computed, measured, strict=True))
    what = f"{unit[0].upper()}{unit[1:]} against {size_label}"
    caption = f"{what}: {on_line} of {len(dots)} measurements lie exactly on the computed line."
    return Picture(figure, f"{caption} {message}".strip())


def _set_y_ticks(ax: Any, computed: Sequence[float], unit: str, is_log: bool) -> None:
    if unit.startswith("bytes"):
        powers = [each for each in range(50) if min(computed) <= 2**each <= max(computed)]
        ticks = [2**each for each in powers[:: 1 + len(powers) // MAX_TICKS]]
        ax.set_yticks(ticks, [format_bytes(tick, digits=0) for tick in ticks])
    elif is_log and min(computed) >= 1 and max(computed) < FEW:
        ax.set_yticks(computed, [f"{each:,}" for each in computed])


def _apart(sizes: Sequence[int]) -> list[int]:
    """The largest size, and as many smaller ones as have room for their labels."""
    kept: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not kept or kept[-1] - size >= MIN_TICK_DISTANCE * kept[0]:
            kept.append(size)
    return kept


def same_bytes_two_numbers(billion_parameters: int, bytes_per_parameter: int) -> Picture:
    """A model's training state in GB and in GiB, on an axis that is the same for every model."""
    num_bytes = billion_parameters * 10**9 * bytes_per_parameter
    gb, gib = num_bytes / 10**9, num_bytes / 2**30
    figure, ax = axes(height=1.8)
    ax.barh(["GiB", "GB"], [gib, gb], color=colours.NEUTRAL)
    for row, (value, text) in enumerate(((gib, f"{gib:,.1f} GiB"), (gb, f"{gb:,.0f} GB"))):
        _label_bar(ax, row, value, text)
    ax.set(xlim=(0, AXIS_GB), xlabel="number printed for the same bytes")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    caption = (
        f"{billion_parameters:,} billion parameters of {bytes_per_parameter} bytes: a paper prints "
        f"{gb:,.0f} GB, torch {gib:,.1f} GiB. The first number is {gb / gib - 1:.1%} larger."
    )
    return Picture(figure, caption)


def _label_bar(ax: Any, row: int, value: float, text: str) -> None:
    """Write a value beside its bar, or inside a long one, with an arrow if that leaves the axis."""
    inside = {"xytext": (-4, 0), "ha": "right", "color": text_on(colours.NEUTRAL)}
    beside = {"xytext": (4, 0), "ha": "left", "color": colours.MEASURED}
    place = inside if value > LONG_GB else beside
    words = f"{text} →" if value > AXIS_GB else text
    end = (min(value, AXIS_GB), row)
    ax.annotate(words, end, textcoords="offset points", va="center", **place)
