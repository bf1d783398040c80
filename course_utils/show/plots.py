"""Figures that several units draw."""

import itertools
from collections.abc import Sequence

from course_utils import colours
from course_utils.show.memory import bytes_as_read
from course_utils.show.picture import Picture, axes

FEW = 1000
ROOM_FOR_A_TICK = 1 / 8  # of an axis that begins at zero


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
        computed: What a formula gives for each.
        measured: What an instrument gives for each; None where only the line has a point.
        size_label: What the size counts.
        unit: ``"bytes"``, drawn in KiB to TiB, or what else is counted, drawn in powers of ten; few
            are ticks themselves.
        is_log: Whether both axes are logarithmic; straight ones begin at zero.
        message: What else the caption says.
    """
    figure, pair = axes()
    pair.plot(sizes, computed, color=colours.COMPUTED, label="computed")
    dots = {size: each for size, each in zip(sizes, measured, strict=True) if each is not None}
    as_dots = {"color": colours.MEASURED, "label": "measured", "clip_on": False}
    pair.plot(list(dots), list(dots.values()), "o", **as_dots)
    if is_log:
        pair.set_xscale("log")
        pair.set_yscale("log")
    else:
        pair.set_xlim(left=0)
        pair.set_ylim(bottom=0)
    ticks_below = list(dots) if is_log else _apart(list(dots))
    pair.set_xticks(ticks_below, [f"{size:,}" for size in ticks_below])
    if unit == "bytes":
        ticks = [2**power for power in range(0, 50) if min(computed) <= 2**power <= max(computed)]
        pair.set_yticks(ticks, [bytes_as_read(tick, digits=0) for tick in ticks])
    elif is_log and max(computed) < FEW:
        pair.set_yticks(computed, [f"{each:,}" for each in computed])
    pair.minorticks_off()
    scale = " (log scale)" if is_log else ""
    pair.set_xlabel(size_label + scale)
    pair.set_ylabel(unit + scale)
    pair.legend(frameon=False)
    on_line = sum(c == m for c, m in zip(computed, measured, strict=True))
    what = f"{unit[0].upper()}{unit[1:]} against {size_label}, {sizes[0]:,} to {sizes[-1]:,}"
    caption = f"{what}: {on_line} of {len(dots)} measurements lie exactly on the computed line."
    return Picture(figure, f"{caption} {message}".strip())


def _apart(sizes: Sequence[int]) -> list[int]:
    """The largest size, and those before it that leave room for each other's numbers."""
    kept: list[int] = []
    for size in sorted(sizes, reverse=True):
        if not kept or kept[-1] - size >= ROOM_FOR_A_TICK * kept[0]:
            kept.append(size)
    return kept


def same_bytes_two_numbers(billion_parameters: int, bytes_per_parameter: int) -> Picture:
    """A model's training state as a number of GB and as a number of GiB.

    The axis ends at a round number, so that a larger model has a longer bar until the next one.
    """
    num_bytes = billion_parameters * 10**9 * bytes_per_parameter
    gb, gib = num_bytes / 10**9, num_bytes / 2**30
    figure, pair = axes(height=1.6)
    bars = pair.barh(["GiB", "GB"], [gib, gb], color=colours.NEUTRAL)
    pair.bar_label(bars, [f"{gib:,.1f}", f"{gb:,.0f}"], padding=4)
    pair.set_xlim(0, _round_limit(1.1 * gb))
    pair.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    pair.set_xlabel("the number that is printed for the same bytes")
    caption = (
        f"{billion_parameters:,} billion parameters of {bytes_per_parameter} bytes: a paper prints "
        f"{gb:,.0f} GB, torch prints {gib:,.1f} GiB, a number {gb - gib:,.1f} smaller, "
        f"by {1 - gib / gb:.1%}."
    )
    return Picture(figure, caption)


def _round_limit(value: float) -> int:
    """The first of 1, 2, 5, 10, 20, ... that is not below a value."""
    limit, steps = 1, itertools.cycle((2, 2.5, 2))
    while limit < value:
        limit = int(limit * next(steps))
    return limit
