"""How near do predictions of a new cluster come, by the GPU-hours that were spent on it?"""

from collections.abc import Mapping

from course_utils import colours
from course_utils.show.picture import Picture, axes

SHADES = (colours.COMPUTED, colours.COMMUNICATION, colours.IDLE, colours.NEUTRAL)
NEAR = 10  # per cent


def errors_over_hours(percents: Mapping[str, Mapping[float, float]], at: float) -> Picture:
    """Errors in per cent over GPU-hours.

    Args:
        percents: By name, the error for each budget; the one that is talked about comes first.
        at: The budget that the caption names, GPU-hours.
    """
    figure, ax = axes(height=3.0)
    for (name, own), shade in zip(percents.items(), SHADES, strict=False):
        ax.plot(list(own), list(own.values()), "o-", color=shade, label=name, markersize=4)
    ax.axhline(NEAR, color=colours.NEUTRAL, linestyle="--", linewidth=0.8)
    ax.set_yscale("log")
    ticks = [5, 10, 20, 50, 100]
    ax.set_yticks(ticks, ticks)
    ax.minorticks_off()
    ax.set_xlabel("GPU-hours")
    ax.set_ylabel("error, %")
    ax.legend(frameon=False)
    there = [f"{name} {own[at]:.0f} %" for name, own in percents.items()]
    return Picture(figure, f"Error after {at:g} GPU-hours: {', '.join(there)}.")
