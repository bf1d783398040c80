"""For which rank do the others wait, and what does that cost?

A collective ends on no rank before the last one has come. So a rank **waits** in it from its own
start to the start of the last rank, and the **straggler** is the one for which the others wait
longest, all together.

    >>> who_is_late([{"rank": 0, "start_ns": 0}, {"rank": 1, "start_ns": 70}], rank=0)
    {'straggler': 1, 'waiting_ns': 70, 'saved_ns': 70}

Events are those of `course_utils.traces`.
"""

from collections import Counter, defaultdict
from typing import Any


def who_is_late(events: list[dict[str, Any]], rank: int) -> dict[str, int]:
    """The straggler, how long a rank waits, and how much shorter the step would be without it.

    Args:
        events: The collectives of all ranks in one step, on one clock, in any order; every rank
            takes part in all of them.
        rank: Whose waiting is asked for.

    Returns:
        ``straggler``, a rank; ``waiting_ns`` of the rank, in nanoseconds; ``saved_ns``, if the
        straggler came together with the last of the others wherever it comes after them.
    """
    starts_of = defaultdict[int, list[int]](list)
    for event in events:
        starts_of[event["rank"]].append(event["start_ns"])
    caused, saved = Counter[int](), Counter[int]()
    waiting_ns = 0
    for starts in zip(*map(sorted, starts_of.values()), strict=True):
        call = dict(zip(starts_of, starts, strict=True))
        *_, before, last = sorted(call, key=lambda each: call[each])
        caused[last] += sum(call[last] - start for start in starts)
        saved[last] += call[last] - call[before]
        waiting_ns += call[last] - call[rank]
    [(straggler, _)] = caused.most_common(1)
    return {"straggler": straggler, "waiting_ns": waiting_ns, "saved_ns": saved[straggler]}
