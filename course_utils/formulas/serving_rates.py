"""How many conversations does a device serve at the speed that each of them should have?

    >>> serve([[1, 0.001], [3, 0.002], [5, 0.005]], 2, 0.003, room=9, slowest=90)["most"]
    4

Conventions: seconds of attention were measured, for one layer; between two rows the straight line
counts, and beyond the last one nothing does. A step gives each conversation one token.
"""

from bisect import bisect_left
from collections.abc import Sequence


def attention_seconds(rows: Sequence[Sequence[float]], conversations: int) -> float:
    """Seconds of one layer's attention, on the straight line between two measured rows.

    Args:
        rows: ``[conversations, seconds]``, going up from 1 conversation.
        conversations: From 1 to those of the last row.
    """
    above = bisect_left([count for count, _ in rows], conversations)
    high, last = rows[above]
    if high == conversations:
        return last
    low, first = rows[above - 1]
    return first + (last - first) * (conversations - low) / (high - low)


def serve(
    attention: Sequence[Sequence[float]],
    num_layers: int,
    other_seconds: float,
    room: int,
    slowest: float,
) -> dict[str, float]:
    """The most conversations that fit and are fast enough, and their tokens per second.

    Args:
        attention: Rows ``[conversations, seconds]`` of one layer, going up from 1 conversation.
        num_layers: Layers, one after another.
        other_seconds: Of a step without its attention, whatever the conversations.
        room: Conversations that fit into memory.
        slowest: Tokens per second that each should have at least.

    Returns:
        ``most`` conversations; tokens per second of ``each`` and of ``all``; zeros if even one
        conversation is too slow.
    """
    most, each = 0, 0.0
    for conversations in range(1, min(room, int(attention[-1][0])) + 1):
        step = other_seconds + num_layers * attention_seconds(attention, conversations)
        if 1 / step >= slowest:
            most, each = conversations, 1 / step
    return {"most": most, "each": each, "all": most * each}
