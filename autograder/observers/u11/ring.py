"""Ring attention: results, what went over the links, what was attended to at once, and when."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_changed, num_different
from autograder.observers.on_ranks import NETWORK, cluster_of, record_on_cluster
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of, require_tensor, undisturbed
from autograder.observers.u11.in_flight import InFlightComm
from autograder.observers.u11.results import wrong_results
from course_utils.distributed import ClusterRun, Comm, VirtualCluster
from course_utils.reference.context_parallel import attend_pieces

FLOAT64_BYTES = 8
ORDINARY, EXTREME, OVERLAPPED = SCENARIOS = ("ordinary", "extreme", "overlapped")
SIDE_BY_SIDE, EARLY_AND_LATE = LAYOUTS = ("side by side", "early and late")
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
    q, k, v = normal_numbers(3 * shape[0] + shape[1], *(shape,) * 3)
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
        return record_on_cluster(cluster_for(case), on_rank, answer, case)._asdict()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Results beside the right ones; bytes and time as the judge's own cluster has them."""
    run, forged_calls = replay(observed["logs"], cluster_for(case))
    ranks = observed["ranks"]
    return [
        forged(forged_calls),
        *_traffic(run),
        *_blocks(ranks),
        *_results([each["result"] for each in ranks], right["results"]),
        Fact(
            "changed",
            sum(_num_changed(case, *each) for each in enumerate(ranks)),
            "keys or values of a caller that have changed",
            "Which line writes into `k` or `v`, and what else holds them?",
        ),
        *([_late(run, right)] if case["scenario"] == OVERLAPPED else []),
    ]


def _traffic(run: ClusterRun) -> list[Fact]:
    """Bytes of the ranks that send most and least, and calls that are no messages."""
    sent = [sum(e.num_bytes for e in run.sent_by(rank)) for rank in range(run.num_ranks)]
    calls = (e for rank in range(run.num_ranks) for e in run.communications(rank))
    return [
        Fact(
            "collectives",
            sum(not each.name.startswith("message") for each in calls),
            "calls that are no messages",
            "Which of your calls involve all ranks at once, and which messages between two ranks "
            "could do the same work?",
        ),
        Fact(
            "sent_bytes",
            max(sent),
            "bytes sent by the rank that sends most",
            "How many turns are there, and after which of them does a rank still need new keys?",
        ),
        Fact(
            "least_sent_bytes",
            min(sent),
            "bytes that the rank sends which sends least",
            "Which rank sends less than the others, in which turn, and what does the rank after it "
            "attend to then?",
        ),
    ]


def _blocks(ranks: list[dict[str, Any]]) -> list[Fact]:
    """How often `attend_block` is called, and with which keys."""
    return [
        Fact(
            "attend_calls",
            max(len(each["num_keys"]) for each in ranks),
            "calls of `attend_block` on the rank with most",
            "How many blocks of keys are there, and how often does a rank need each?",
        ),
        Fact(
            "most_keys",
            max((n for each in ranks for n in each["num_keys"]), default=0),
            "keys in one call of `attend_block`",
            "How many keys does one rank hold? What happens to those that it has used?",
        ),
        Fact(
            "early_calls",
            sum(each["early_calls"] for each in ranks),
            "calls of `attend_block` with keys that are still on their way",
            "Which keys does each call of `attend_block` use, and have they arrived?",
        ),
    ]


def _results(ours: list[Tensor], theirs: list[Tensor]) -> list[Fact]:
    """Ranks with a wrong result, and how long that of the last one is."""
    num_wrong = num_different(ours, theirs)
    return [
        wrong_results(
            num_wrong,
            "With two ranks, write down for each turn whose keys rank 1 has. Which result goes "
            "into which merge?",
        ),
        Fact(
            "result_length",
            length_of([(ours if num_wrong else theirs)[-1]]),
            "the length of the last rank's result",
            "Which blocks of keys go into the last rank's result, how often does each, and which "
            "number says how much it weighs?",
        ),
    ]


def _num_changed(case: Case, rank: int, observed: Plain) -> int:
    """How many of a rank's own keys and values hold other numbers than before."""
    mine = positions_of(case)[rank].flatten()
    return num_changed(observed["keys_and_values"], (each[mine] for each in sequence_of(case)[1:]))


def _late(run: ClusterRun, right: Plain) -> Fact:
    return Fact(
        "late",
        int(run.step_seconds > ALLOWANCE * right["seconds"]),
        "A rank waits for its links where it could compute.",
        "In each turn, what does a rank do between the start of its messages and the wait for "
        "them?",
    )
