"""What holds the memory of recorded steps, and where do they peak?"""

from collections.abc import Mapping, Sequence
from typing import Any

from course_utils import colours
from course_utils.quantities import format_bytes
from course_utils.show.picture import Picture, axes_beside, note

GIB, MIB, MILLISECONDS = 2**30, 2**20, 1000
# Which categories are drawn as one, by how their names begin; the lowest first.
GROUPS = {
    "weights": ("weights and averages", colours.PARAMETERS),
    "forward": ("activations", colours.ACTIVATIONS),
    "gradients": ("gradients", colours.GRADIENTS),
    "optimizer": ("optimizer's temporaries", colours.OPTIMIZER_STATES),
    "": ("other temporaries", colours.TEMPORARIES),
}

Moments = Sequence[tuple[float, Mapping[str, int]]]
"""Seconds, and the live bytes of each category from then on."""


def recorded_timelines(runs: Mapping[str, Moments]) -> Picture:
    """Live bytes over time of recorded steps, side by side on one scale, each with its peak.

    Args:
        runs: What `course_utils.records.traces.recorded_memory` gives, by the name of the run.

    Raises:
        ValueError: If a run has no moments.
    """
    if empty := [name for name, moments in runs.items() if not moments]:
        raise ValueError(f"wanted moments of each run, got none of {', '.join(empty)}")
    figure, all_axes = axes_beside(3.8, [1] * len(runs), sharey=True)
    highest = max(sum(live.values()) for moments in runs.values() for _, live in moments)
    sentences = []
    for ax, (name, moments) in zip(all_axes, runs.items(), strict=True):
        _draw(ax, moments)
        sentences.append(f"{name}: {_mark_peak(ax, moments)}")
        ax.set_title(name, fontsize="medium")
        ax.set_xlabel("milliseconds")
    all_axes[0].set_ylim(0, 1.15 * highest / GIB)
    all_axes[0].set_ylabel("live memory in GiB")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=5, frameon=False, loc="outside lower center")
    return Picture(figure, f"Peaks on one scale. {'; '.join(sentences)}.")


def _draw(ax: Any, moments: Moments) -> None:
    """Draw each group from zero up to the sum so far, the later ones behind it."""
    times = [MILLISECONDS * seconds for seconds, _ in moments]
    tops = [0.0] * len(moments)
    groups = [_grouped(live) for _, live in moments]
    for place, (name, colour) in enumerate(GROUPS.values()):
        tops = [top + each[name] / GIB for top, each in zip(tops, groups, strict=True)]
        area = {"color": colour, "label": name, "linewidth": 0, "zorder": -place}
        ax.stairs(tops[:-1], times, fill=True, **area)
    ax.set_xlim(times[0], times[-1])


def _grouped(live: Mapping[str, int]) -> dict[str, int]:
    grouped = dict.fromkeys((name for name, _ in GROUPS.values()), 0)
    for category, num_bytes in live.items():
        grouped[_group_of(category)] += num_bytes
    return grouped


def _group_of(category: str) -> str:
    return next(name for begin, (name, _) in GROUPS.items() if category.startswith(begin))


def _mark_peak(ax: Any, moments: Moments) -> str:
    """Mark the peak, and say in words what is live there."""
    seconds, live = max(moments, key=lambda moment: sum(moment[1].values()))
    at, peak = MILLISECONDS * seconds, sum(live.values())
    ax.plot([at], [peak / GIB], "v", color=colours.MEASURED, clip_on=False)
    note(ax, format_bytes(peak), (at, peak / GIB), (0, 6), ha="center")
    grouped = _grouped(live).items()
    parts = (f"{name} {format_bytes(size)}" for name, size in grouped if size >= MIB)
    return f"{format_bytes(peak)} after {at:,.0f} ms, {', '.join(parts)}"
