"""One sequence on several ranks: keys and values travel around a ring, results are merged.

Each rank holds pieces of the sequence, each of positions that follow one another: one piece or
several of equal length. Attention skips every pair of pieces of which no query may see a key.

Sources: Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers" (2023); Brandon et
al., "Striped Attention" (2023); Grattafiori et al., "The Llama 3 Herd of Models" (2024), 3.3.2.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from course_utils.distributed.comm import Comm
from course_utils.reference.online_softmax import merge

Attend = Callable[[Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor]]


def attend_pieces(
    q: Tensor, k: Tensor, v: Tensor, q_positions: Tensor, k_positions: Tensor
) -> tuple[Tensor, Tensor]:
    """Causal attention of one head over some keys, pairs of pieces that are all hidden skipped.

    Args:
        q: Queries, (rows, d).
        k: Keys, (keys, d).
        v: Values, (keys, d).
        q_positions: Of the queries in the sequence, (pieces, length of a piece).
        k_positions: Of the keys and values, (pieces, length of a piece).

    Returns:
        The result (rows, d) and the log-sum-exp of each row (rows,); zeros and minus infinity for a
        row that may see none of the keys.
    """
    results = []
    for queries, here in zip(q.split(q_positions.shape[1]), q_positions, strict=True):
        result = torch.zeros_like(queries), queries.new_full((len(queries),), -torch.inf)
        blocks = zip(*(each.split(k_positions.shape[1]) for each in (k, v)), strict=True)
        for (keys, values), there in zip(blocks, k_positions, strict=True):
            if there[0] <= here[-1]:
                scores = queries @ keys.T * q.shape[1] ** -0.5
                hidden = scores.masked_fill(there > here[:, None], -torch.inf)
                result = merge(*result, *_softmax(hidden, values))
        results.append(result)
    outs, lses = zip(*results, strict=True)
    return torch.cat(outs), torch.cat(lses)


def _softmax(scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    lse = scores.logsumexp(1)
    return torch.exp(scores - torch.where(lse == -torch.inf, 0.0, lse)[:, None]) @ values, lse


def ring_attention(comm: Comm, attend_block: Attend, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of this rank's queries over the keys of all ranks, which travel around a ring.

    Args:
        comm: The ranks that share the sequence.
        attend_block: From queries, keys, values and the rank that these came from to the result and
            its log-sum-exp.
        q: This rank's queries, (S / c, d).
        k: Its keys.
        v: Its values.
    """
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    result = None
    for turn in range(comm.size):
        coming, in_flight = [torch.empty_like(k), torch.empty_like(v)], []
        if turn < comm.size - 1:
            in_flight += [comm.send(each, after, async_op=True) for each in (k, v)]
            in_flight += [comm.receive(each, before, async_op=True) for each in coming]
        part = attend_block(q, k, v, (comm.rank - turn) % comm.size)
        result = part if result is None else merge(*result, *part)
        for each in in_flight:
            each.wait()
        k, v = coming
    assert result is not None
    return result[0]


def zigzag_positions(rank: int, num_ranks: int, seq_len: int) -> list[list[int]]:
    """The two pieces of a rank, of 2 c in all: piece r from the front, and piece r from the back.

    Each rank computes (2 c + 1) / (4 c) of what the last rank of c contiguous ones computes.
    """
    length = seq_len // (2 * num_ranks)
    starts = (rank * length, seq_len - (rank + 1) * length)
    return [list(range(start, start + length)) for start in starts]


def combine_over_ranks(comm: Comm, out: Tensor, lse: Tensor) -> Tensor:
    """The result over the keys of all ranks, from each rank's own for the same queries.

    Args:
        comm: The ranks, each with some of the keys.
        out: The result over this rank's keys, (rows, d).
        lse: Its log-sum-exp, (rows,); minus infinity for a row without keys here.
    """
    of_all = lse.new_empty(comm.size * len(lse))
    comm.all_gather(of_all, lse)
    whole = of_all.view(comm.size, -1).logsumexp(0)
    share = torch.exp(lse - torch.where(whole == -torch.inf, 0.0, whole))
    combined = share[:, None] * out
    comm.all_reduce(combined)
    return combined
