"""Figures that several units share."""

import itertools
from collections.abc import Sequence
from typing import Any

from course_utils import colours
from course_utils.show.memory_over_time import format_bytes
from course_utils.show.picture import Picture, axes

FEW = 1000  # smaller values are ticks themselves
MIN_TICK_DISTANCE = 1 / 8  # of the length of an axis that starts at zero


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
        unit: ``"bytes"``, with ticks in KiB to TiB, or any other unit, with ticks at powers of ten;
            values below 1,000 are ticks themselves.
        is_log: Whether both axes are logarithmic; linear ones start at zero.
        message: A sentence to add to the caption.
    """
    figure, ax = axes()
    ax.plot(sizes, computed, color=colours.COMPUTED, label="computed")
    dots = {size: each for size, each in zip(sizes, measured, strict=True) if each is not None}
    as_dots = {"color": colours.MEASURED, "label": "measured", "clip_on": False}
    ax.plot(list(dots), list(dots.values()), "o", **as_dots)
    if is_log:
        ax.set_xscale("log")
        ax.set_yscale("log")
    else:
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
    x_ticks = list(dots) if is_log else _apart(list(dots))
    ax.set_xticks(x_ticks, [f"{size:,}" for size in x_ticks])
    _set_y_ticks(ax, computed, unit, is_log)
    ax.minorticks_off()
    scale = " (log scale)" if is_log else ""
    ax.set_xlabel(size_label + scale)
    ax.set_ylabel(unit + scale)
    ax.legend(frameon=False)
    on_line = sum(c == m for c, m in zip(computed, measured, strict=True))
    what = f"{unit[0].upper()}{unit[1:]} against {size_label}, {sizes[0]:,} to {sizes[-1]:,}"
    caption = f"{what}: {on_line} of {len(dots)} measurements lie exactly on the computed line."
    return Picture(figure, f"{caption} {message}".strip())


def _set_y_ticks(ax: Any, computed: Sequence[float], unit: str, is_log: bool) -> None:
    if unit == "bytes":
        ticks = [2**power for power in range(0, 50) if min(computed) <= 2**power <= max(computed)]
        ax.set_yticks(ticks, [format_bytes(tick, digits=0) for tick in ticks])
    elif is_log and max(computed) < FEW:
        ax.set_yticks(computed, [f"{each:,}" for each in computed])


def _apart(sizes: Sequence[int]) -> list[int]:
    """The largest size, and as many smaller ones as have room for their labels."""
    kept: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not kept or kept[-1] - size >= MIN_TICK_DISTANCE * kept[0]:
            kept.append(size)
    return kept


def same_bytes_two_numbers(billion_parameters: int, bytes_per_parameter: int) -> Picture:
    """A model's training state in GB and in GiB.

    The axis ends at a round number, so a larger model usually has a longer bar.
    """
    num_bytes = billion_parameters * 10**9 * bytes_per_parameter
    gb, gib = num_bytes / 10**9, num_bytes / 2**30
    figure, ax = axes(height=1.6)
    bars = ax.barh(["GiB", "GB"], [gib, gb], color=colours.NEUTRAL)
    ax.bar_label(bars, [f"{gib:,.1f}", f"{gb:,.0f}"], padding=4)
    ax.set_xlim(0, _round_limit(1.1 * gb))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlabel("the number that is printed for the same bytes")
    caption = (
        f"{billion_parameters:,} billion parameters of {bytes_per_parameter} bytes: a paper prints "
        f"{gb:,.0f} GB, torch prints {gib:,.1f} GiB, a number {gb - gib:,.1f} smaller, "
        f"by {1 - gib / gb:.1%}."
    )
    return Picture(figure, caption)


def _round_limit(value: float) -> int:
    """The first of 1, 2, 5, 10, 20, ... that is at least ``value``."""
    limit, steps = 1, itertools.cycle((2, 2.5, 2))
    while limit < value:
        limit = int(limit * next(steps))
    return limit
