"""A product with gathered tokens: gradients and calls, what autograd keeps, what is hidden."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.comparing import is_same, num_different
from autograder.observing.observation import (
    errors_as_data,
    require_tensor,
    undisturbed,
)
from autograder.observing.replay import replay
from autograder.observing.u03.kept import kept_bytes, observe_kept, random_tensors
from autograder.observing.u09.on_ranks import NETWORK, cluster_of, record_on_cluster
from autograder.observing.u11.in_flight import InFlightComm
from autograder.observing.u11.passes import LABELS as PASS_LABELS
from autograder.observing.u11.passes import end_forward, traffic
from course_utils.distributed import Comm, NullComm, VirtualCluster

FLOAT64_BYTES = 8
NUMBERS, KEPT, OVERLAPPED = SCENARIOS = ("numbers", "kept", "overlapped")
LABELS = PASS_LABELS | {
    "early_weights": "ranks whose gradient of the weight was computed before the tokens were there",
    "summed_weights": "ranks whose gradient of the weight is a sum over ranks",
    "wrong_results": "ranks whose result is wrong",
    "wrong_shards": "ranks whose gradient of the shard is wrong",
    "wrong_weights": "ranks whose gradient of the weight is wrong",
    "saved_bytes": "the bytes that autograd keeps",
    "copied_bytes": "the bytes that autograd keeps besides shard and weight",
    "unseen_bytes": "the bytes that stay alive where autograd does not see them",
    "late": "A rank waits for its links where it could compute.",
}
ALLOWANCE = 1.05  # an exposed gather or scatter takes a sixth of the time
COMPUTE_PER_GATHER = 1.5


def tensors_of(case: Case, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """A rank's tokens (S / t, h), its part of a weight (rows, h), and what comes from above."""
    tokens, h, rows = case["tokens_per_rank"], case["hidden_size"], case["rows"]
    shapes = (tokens, h), (rows, h), (case["num_ranks"] * tokens, rows)
    shard, weight, incoming = random_tensors(50 * h + rank, *shapes)
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
        return {**kept, "ranks": recorded.results, "logs": recorded.logs}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Tensors beside the right ones, bytes and calls, time on the judge's cluster."""
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_for(case))
    calls = traffic(run, ["all_gather", "reduce_scatter"])
    if case["scenario"] == KEPT:
        return {"forged_calls": forged_calls, **kept_bytes(observed), **calls}
    of_weights = [each["weight"] for each in ranks]
    wrong = {
        "early_weights": sum(map(_holds_nan, of_weights)),
        "summed_weights": _num_summed(of_weights, right["weight"]),
    } | {
        f"wrong_{name}s": num_different((each[name] for each in ranks), right[name])
        for name in ("result", "shard", "weight")
    }
    if case["scenario"] == NUMBERS:
        return {"forged_calls": forged_calls, **wrong}
    is_late = run.step_seconds > ALLOWANCE * max(right["seconds"], default=math.inf)
    return {"forged_calls": forged_calls, **calls, **wrong, "late": int(is_late)}


def _holds_nan(gradient: Tensor | None) -> bool:
    """Whether something went into it that was still on its way."""
    return gradient is not None and bool(gradient.isnan().any())


def _num_summed(ours: Sequence[Tensor | None], right: Sequence[Tensor]) -> int:
    """How many wrong gradients are the sum of all right ones."""
    total = torch.stack(list(right)).sum(0)
    pairs = zip(ours, right, strict=True)
    return sum(is_same(one, total) and not is_same(one, theirs) for one, theirs in pairs)
