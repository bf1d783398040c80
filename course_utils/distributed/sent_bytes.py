"""How many bytes does a rank send in a call? Counted as in a ring, whatever carries the call.

With n ranks, and S bytes of what is reduced, gathered or sent as a whole:

    all-gather, reduce-scatter      (n-1)/n S
    all-reduce                    2 (n-1)/n S
    broadcast                               S, and 0 on the rank before the source
    message                                 S on its sender

An all-reduce cuts its tensor into n parts as `torch.tensor_split` does. Where they are unequal the
ranks send unequal bytes, and on average 2 (n-1)/n S.

    >>> ring_sent_bytes(Call("all_reduce", (6,), "float64", 48), members=(0, 1, 2), rank=0)
    64

Source: Thakur, Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in
MPICH, section 4; `course_utils.reference.ring` has the messages.
"""

import math
from collections.abc import Sequence

from course_utils.distributed.call_matching import Call

ONE_ROUND = ("all_gather", "reduce_scatter")


def ring_sent_bytes(call: Call, members: Sequence[int], rank: int) -> int:
    """Bytes that one rank sends to others in a call.

    Args:
        call: What the rank asks for.
        members: All that take part, in the order of the ring.
        rank: One of them.
    """
    num_ranks, position = len(members), members.index(rank)
    if call.kind == "send":
        return call.num_bytes
    if call.kind in ONE_ROUND:
        return call.num_bytes // num_ranks * (num_ranks - 1)
    if call.kind == "all_reduce":
        return _all_reduce_bytes(call, num_ranks, position)
    if call.kind == "broadcast":
        assert call.peer is not None
        is_last = (position + 1) % num_ranks == members.index(call.peer)
        return 0 if is_last else call.num_bytes
    return 0


def _all_reduce_bytes(call: Call, num_ranks: int, position: int) -> int:
    """Two rounds: in each, all parts but one leave this rank."""
    num_elements = math.prod(call.shape)
    if not num_elements:
        return 0
    least, rest = divmod(num_elements, num_ranks)
    stay = ((position + turn) % num_ranks for turn in (1, 2))
    staying = sum(least + (part < rest) for part in stay)
    return (2 * num_elements - staying) * (call.num_bytes // num_elements)
