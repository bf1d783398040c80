"""Ring attention: results, what went over the links, what was attended to at once, and when."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.comparing import num_changed, num_different
from autograder.observing.observation import errors_as_data, length_of, require_tensor, undisturbed
from autograder.observing.replay import LABELS as REPLAY_LABELS
from autograder.observing.replay import replay
from autograder.observing.u03.kept import random_tensors
from autograder.observing.u09.on_ranks import NETWORK, cluster_of, record_on_cluster
from autograder.observing.u11.in_flight import InFlightComm
from course_utils.distributed import ClusterRun, Comm, VirtualCluster
from course_utils.reference.context_parallel import attend_pieces

FLOAT64_BYTES = 8
ORDINARY, EXTREME, OVERLAPPED = SCENARIOS = ("ordinary", "extreme", "overlapped")
SIDE_BY_SIDE, EARLY_AND_LATE = LAYOUTS = ("side by side", "early and late")
LABELS = REPLAY_LABELS | {
    "collectives": "calls that are no messages",
    "sent_bytes": "bytes that the rank sends which sends most",
    "least_sent_bytes": "bytes that the rank sends which sends least",
    "attend_calls": "calls of `attend_block` on the rank with most",
    "most_keys": "keys in one call of `attend_block`",
    "early_calls": "calls of `attend_block` with keys that are still on their way",
    "wrong_results": "ranks whose result is wrong",
    "result_length": "the length of the last rank's result",
    "changed": "keys or values of a caller that are other numbers afterwards",
    "late": "A rank waits for its links where it could compute.",
}
ALLOWANCE = 1.05  # messages that are not hidden cost a third
COMPUTE_PER_TURN = 1.5


def positions_of(case: Case) -> list[Tensor]:
    """Which positions each rank holds, as rows that are pieces of the sequence."""
    c, length = case["num_ranks"], case["piece_length"]
    pieces = torch.arange(2 * c * length).view(2 * c, length)
    if case["layout"] == EARLY_AND_LATE:
        return [pieces[[rank, 2 * c - 1 - rank]] for rank in range(c)]
    return [pieces[2 * rank : 2 * rank + 2] for rank in range(c)]


def sequence_of(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of the whole sequence; in extreme ones scores reach 1,000."""
    shape = (2 * case["num_ranks"] * case["piece_length"], case["head_dim"])
    q, k, v = random_tensors(3 * shape[0] + shape[1], *(shape,) * 3)
    return (400 * q if case["scenario"] == EXTREME else q), k, v


def cluster_for(case: Case) -> VirtualCluster:
    """Links on which a block of scores takes somewhat longer than its keys and values."""
    tokens, d = 2 * case["piece_length"], case["head_dim"]
    message = NETWORK.seconds("send", tokens * d * FLOAT64_BYTES, range(2))
    rate = 4 * tokens * tokens * d / 2 / (COMPUTE_PER_TURN * 2 * message)
    return replace(cluster_of(case["num_ranks"]), flops_per_second=rate)


def on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    """One rank's result, the keys of each call of `attend_block`, and its inputs afterwards."""
    positions = positions_of(case)
    q, k, v = (each[positions[comm.rank].flatten()] for each in sequence_of(case))
    num_keys, are_early = [], []

    def attend_block(q: Tensor, k: Tensor, v: Tensor, owner: int) -> tuple[Tensor, Tensor]:
        num_keys.append(len(k))
        are_early.append(bool(k.isnan().any()))
        return attend_pieces(q, k, v, positions[comm.rank], positions[owner])

    result = require_tensor(answer(InFlightComm(comm), attend_block, q, k, v))
    return {
        "result": result.detach(),
        "num_keys": num_keys,
        "early_calls": sum(are_early),
        "keys_and_values": [k, v],
    }


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Each rank's result, the keys of its calls of `attend_block`, and all calls."""
    with undisturbed():
        recorded = record_on_cluster(cluster_for(case), on_rank, answer, case)
    return {"ranks": recorded.results, "logs": recorded.logs}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Results beside the right ones; bytes and time as the judge's own cluster has them."""
    run, forged_calls = replay(observed["logs"], cluster_for(case))
    ranks = observed["ranks"]
    results = [each["result"] for each in ranks]
    wrong_results = num_different(results, right["results"])
    return {
        "forged_calls": forged_calls,
        **_traffic(run),
        "attend_calls": max(len(each["num_keys"]) for each in ranks),
        "most_keys": max((n for each in ranks for n in each["num_keys"]), default=0),
        "early_calls": sum(each["early_calls"] for each in ranks),
        "wrong_results": wrong_results,
        "result_length": length_of([(results if wrong_results else right["results"])[-1]]),
        "changed": sum(_num_changed(case, *each) for each in enumerate(ranks)),
        "late": int(run.step_seconds > ALLOWANCE * max(right["seconds"], default=math.inf)),
    }


def _num_changed(case: Case, rank: int, observed: Plain) -> int:
    """How many of a rank's own keys and values hold other numbers than before."""
    mine = positions_of(case)[rank].flatten()
    return num_changed(observed["keys_and_values"], (each[mine] for each in sequence_of(case)[1:]))


def _traffic(run: ClusterRun) -> dict[str, int]:
    sent = [sum(e.num_bytes for e in run.sent_by(rank)) for rank in range(run.num_ranks)]
    calls = (e for rank in range(run.num_ranks) for e in run.communications(rank))
    return {
        "collectives": sum(not each.name.startswith("message") for each in calls),
        "sent_bytes": max(sent),
        "least_sent_bytes": min(sent),
    }
