"""A product with gathered tokens: gradients and calls, what autograd keeps, what is hidden."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import is_same, num_different
from autograder.observers.kept import kept_bytes, observe_kept, saved, unseen
from autograder.observers.on_ranks import NETWORK, cluster_of, record_on_cluster
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import (
    errors_as_data,
    require_tensor,
    undisturbed,
)
from autograder.observers.u11.in_flight import InFlightComm
from autograder.observers.u11.passes import end_forward, traffic
from autograder.observers.u11.results import wrong_results
from course_utils.distributed import ClusterRun, Comm, NullComm, VirtualCluster

FLOAT64_BYTES = 8
NUMBERS, KEPT, OVERLAPPED = SCENARIOS = ("numbers", "kept", "overlapped")
ALLOWANCE = 1.05  # an exposed gather or scatter takes a sixth of the time
COMPUTE_PER_GATHER = 1.5


def tensors_of(case: Case, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """A rank's tokens (S / t, h), its part of a weight (rows, h), and what comes from above."""
    tokens, h, rows = case["tokens_per_rank"], case["hidden_size"], case["rows"]
    shapes = (tokens, h), (rows, h), (case["num_ranks"] * tokens, rows)
    shard, weight, incoming = normal_numbers(50 * h + rank, *shapes)
    if case["kind"] == "transposed gradient":
        incoming = incoming.T.contiguous().T
    return shard.requires_grad_(), weight.requires_grad_(), incoming


def cluster_for(case: Case) -> VirtualCluster:
    """Links on which a product takes somewhat longer than a gather."""
    tokens = case["num_ranks"] * case["tokens_per_rank"]
    num_bytes = tokens * case["hidden_size"] * FLOAT64_BYTES
    gather = NETWORK.seconds("all_gather", num_bytes, range(max(2, case["num_ranks"])))
    flops = 2 * tokens * case["hidden_size"] * case["rows"]
    return replace(
        cluster_of(case["num_ranks"]), flops_per_second=flops / (COMPUTE_PER_GATHER * gather)
    )


def on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    """Both passes of one rank; what is on its way holds NaN."""
    comm = InFlightComm(comm)
    shard, weight, incoming = tensors_of(case, comm.rank)
    result = require_tensor(answer(comm, shard, weight))
    end_forward(comm)
    if result.requires_grad:
        result.backward(incoming)
    return {"result": result.detach(), "shard": shard.grad, "weight": weight.grad}


def _kept(answer: Any, case: Case) -> dict[str, Any]:
    shard, weight, _ = tensors_of(case, 0)
    alone = NullComm(case["num_ranks"])
    return observe_kept(lambda shard, weight: answer(alone, shard, weight), [shard, weight])


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Results, gradients and calls of all ranks; what one rank alone keeps."""
    with undisturbed():
        recorded = record_on_cluster(cluster_for(case), on_rank, answer, case)
        kept = _kept(answer, case) if case["scenario"] == KEPT else {}
        return {**kept, "ranks": recorded.ranks, "logs": recorded.logs}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Tensors beside the right ones, bytes and calls, time on the judge's cluster."""
    run, forged_calls = replay(observed["logs"], cluster_for(case))
    scenario = case["scenario"]
    return [
        forged(forged_calls),
        *(_bytes(observed) if scenario == KEPT else []),
        *(_calls(run) if scenario != NUMBERS else []),
        *(_tensors(observed["ranks"], right) if scenario != KEPT else []),
        *([_late(run, right)] if scenario == OVERLAPPED else []),
    ]


def _bytes(observed: Plain) -> list[Fact]:
    """What lives on after the forward pass of one rank alone."""
    kept = kept_bytes(observed)
    return [
        saved(
            kept["saved_bytes"],
            "Which tensors does autograd still hold when forward is over, and which of them does "
            "backward need?",
        ),
        Fact(
            "copied_bytes",
            kept["copied_bytes"],
            "the bytes that autograd keeps besides shard and weight",
            "Which tensor is kept that is neither `shard` nor `weight`, and what would backward "
            "need to have it again?",
        ),
        unseen(kept["unseen_bytes"]),
    ]


def _calls(run: ClusterRun) -> list[Fact]:
    return traffic(
        run,
        ["all_gather", "reduce_scatter"],
        ask_of_forward="Which tokens does the product need, and which does a rank have?",
        ask_of_backward="Backward needs two things: all tokens again, and the sum of all ranks' "
        "gradients of this shard. Which call brings which?",
    )


def _tensors(ranks: list[dict[str, Any]], right: Plain) -> list[Fact]:
    """Results and gradients beside the right ones."""
    results, of_shards, of_weights = (
        [each[name] for each in ranks] for name in ("result", "shard", "weight")
    )
    return [
        Fact(
            "early_weights",
            sum(map(_holds_nan, of_weights)),
            "ranks whose gradient of the weight was computed before the tokens were there",
            "Which line of your code waits for the gathered tokens, and does the product for the "
            "gradient of the weight come before it or after it?",
        ),
        Fact(
            "summed_weights",
            _num_summed(of_weights, right["weight"]),
            "ranks whose gradient of the weight is a sum over ranks",
            "Which of your calls adds up gradients of the weight, and which other rank has the "
            "same rows of the weight?",
        ),
        wrong_results(
            num_different(results, right["result"]),
            "In which order do the tokens of the ranks stand in the result?",
        ),
        Fact(
            "wrong_shards",
            num_different(of_shards, right["shard"]),
            "ranks whose gradient of the shard is wrong",
            "Which ranks' products use the tokens of this shard?",
        ),
        Fact(
            "wrong_weights",
            num_different(of_weights, right["weight"]),
            "ranks whose gradient of the weight is wrong",
            "Which tokens went through this rank's weight, and had they arrived?",
        ),
    ]


def _late(run: ClusterRun, right: Plain) -> Fact:
    is_late = run.step_seconds > ALLOWANCE * right["seconds"]
    return Fact(
        "late",
        int(is_late),
        "A rank waits for its links where it could compute.",
        "In backward, which product runs between the start of each call and the wait for it?",
    )


def _holds_nan(gradient: Tensor | None) -> bool:
    """Whether something went into it that was still on its way."""
    return gradient is not None and bool(gradient.isnan().any())


def _num_summed(ours: Sequence[Tensor | None], right: Sequence[Tensor]) -> int:
    """How many wrong gradients are the sum of all right ones."""
    total = torch.stack(list(right)).sum(0)
    pairs = zip(ours, right, strict=True)
    return sum(is_same(one, total) and not is_same(one, theirs) for one, theirs in pairs)
