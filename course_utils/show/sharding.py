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
    figure, ax = axes(height=2.9)
    for offset, name, amounts, colour in (
        (-0.2, "kept", kept, colours.PARAMETERS),
        (0.2, "sent in a step", sent, colours.COMMUNICATION),
    ):
        for row, stage in enumerate(kept):
            width, y = amounts[stage] / GB, row + offset
            ax.barh(y, width, 0.36, color=colour, label="" if row else name)
            ax.annotate(f" {width:,.1f}", (width, y), va="center")
    ax.axvline(limit_bytes / GB, color=colours.NEUTRAL, linestyle="--")
    ax.set_yticks(range(len(kept)), [f"stage {stage}" for stage in kept])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.15 * max(*kept.values(), *sent.values(), limit_bytes) / GB)
    ax.set_xlabel(f"GB; dashed: the {limit_bytes // GB} GB of a device")
    figure.legend(ncols=2, frameon=False, loc="outside upper center")
    fitting = [stage for stage, each in kept.items() if each <= limit_bytes]
    fits = f"The state fits from stage {fitting[0]} on" if fitting else "No state fits"
    last = max(sent)
    return Picture(
        figure,
        f"{fits}; stage {last} keeps {kept[last] / GB:,.1f} GB and sends {sent[last] / GB:,.1f}.",
    )
