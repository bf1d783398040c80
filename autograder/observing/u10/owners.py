"""What is observed of a sharded step: weights of every rank, the optimizer, and all calls."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.comparing import num_different
from autograder.observing.observation import errors_as_data, length_of
from autograder.observing.replay import replay
from autograder.observing.u09.on_ranks import cluster_of, most_calls, record_on_ranks
from course_utils.distributed import Comm

NUM_STEPS = 2


def optimizer_of(case: Case, parameter: nn.Parameter) -> Optimizer:
    """SGD, or Adam with so large an epsilon that it cannot hide the scale of a gradient."""
    if case["scenario"] == "sgd":
        return SGD([parameter], lr=0.1, momentum=0.9)
    return Adam([parameter], lr=0.1, eps=0.1)


def weights_of(case: Case) -> Tensor:
    """All weights at the beginning."""
    generator = torch.Generator().manual_seed(case["part_length"])
    length = case["num_ranks"] * case["part_length"]
    return torch.randn(length, generator=generator, dtype=torch.float64)


def gradient_of(weights: Tensor, rank: int, step: int) -> Tensor:
    """A rank's share of a gradient."""
    return torch.sin(weights * (rank + 1) + step)


def _on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    weights = weights_of(case)
    part = nn.Parameter(weights.chunk(comm.size)[comm.rank].clone())
    if comm.rank != case["rank_without_grad"]:
        part.grad = torch.full_like(part, 7.0)  # of another time
    optimizer, after, num_updates = optimizer_of(case, part), list[Tensor](), [0]

    def count(*_: Any) -> None:
        num_updates[0] += 1

    optimizer.register_step_post_hook(count)
    for step in range(NUM_STEPS):
        answer(comm, weights, gradient_of(weights, comm.rank, step), part, optimizer)
        after.append(weights.clone())
    return {"after": after, "part": part.detach().clone(), "updates": num_updates[0]}


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Weights of each rank after each step, and what each rank did."""
    recorded = record_on_ranks(case["num_ranks"], _on_rank, answer, case)
    return {"ranks": recorded.results, "logs": recorded.logs}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Weights beside those of one optimizer for all; calls, bytes, time."""
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    parts = zip(ranks, right["parts"], strict=True)
    return {
        "forged_calls": forged_calls,
        "updates": max(each["updates"] for each in ranks),
        "wrong_steps": num_different(ranks[0]["after"], right["after"]),
        "wrong_ranks": sum(num_different(e["after"], right["after"]) > 0 for e in ranks),
        "wrong_parts": sum(num_different([e["part"]], [part]) for e, part in parts),
        "length": length_of(ranks[0]["after"][-1:]),
        "calls": most_calls(run),
        "sent_bytes": run.sent_bytes(),
        "seconds": run.step_seconds,
    }
