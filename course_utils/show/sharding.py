"""What does each stage of sharding keep in memory, and what does it send?"""

from collections.abc import Mapping

from course_utils import colours
from course_utils.show.picture import Picture, axes

GB = 10**9


def kept_and_sent(kept: Mapping[int, int], sent: Mapping[int, int], limit_bytes: int) -> Picture:
    """Bytes that a rank keeps from step to step and bytes that it sends in one, by stage.

    Args:
        kept: Bytes of state by stage.
        sent: Bytes of a step by stage.
        limit_bytes: Memory of a device.
    """
    figure, ax = axes(height=2.6)
    for row, stage in enumerate(kept):
        for offset, each, colour in (
            (-0.2, kept[stage], colours.PARAMETERS),
            (0.2, sent[stage], colours.COMMUNICATION),
        ):
            ax.barh(row + offset, each / GB, 0.36, color=colour)
            ax.annotate(f" {each / GB:,.1f}", (each / GB, row + offset), va="center")
    ax.axvline(limit_bytes / GB, color=colours.NEUTRAL, linestyle="--")
    ax.set_yticks(range(len(kept)), [f"stage {stage}" for stage in kept])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.15 * max(*kept.values(), *sent.values(), limit_bytes) / GB)
    ax.set_xlabel(f"GB: above, kept; below, sent in a step; dashed, {limit_bytes // GB} GB")
    fitting = [stage for stage, each in kept.items() if each <= limit_bytes]
    fits = f"The state fits from stage {fitting[0]} on" if fitting else "No state fits"
    last = max(sent)
    return Picture(
        figure,
        f"{fits}; stage {last} keeps {kept[last] / GB:,.1f} GB and sends {sent[last] / GB:,.1f}.",
    )
