"""What is observed of a sharded step: weights of every rank, the optimizer, and all calls."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_different
from autograder.observers.on_ranks import cluster_of, most_calls, record_on_ranks
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of
from course_utils.distributed import Comm

NUM_STEPS = 2
TWO_CALLS = "Two calls make one all-reduce. Which two?"


def optimizer_of(case: Case, parameter: nn.Parameter) -> Optimizer:
    """SGD, or Adam with so large an epsilon that it cannot hide the scale of a gradient."""
    if case["scenario"] == "sgd":
        return SGD([parameter], lr=0.1, momentum=0.9)
    return Adam([parameter], lr=0.1, eps=0.1)


def weights_of(case: Case) -> Tensor:
    """All weights at the beginning."""
    (weights,) = normal_numbers(case["part_length"], case["num_ranks"] * case["part_length"])
    return weights


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
    return record_on_ranks(case["num_ranks"], _on_rank, answer, case)._asdict()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Weights beside those of one optimizer for all; calls, bytes, time."""
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    parts = zip(ranks, right["parts"], strict=True)
    return [
        forged(forged_calls),
        Fact(
            "updates",
            max(each["updates"] for each in ranks),
            "updates of the optimizer in two steps",
            "In one call of `sharded_step`, how often does a rank run `optimizer.step()`?",
        ),
        Fact(
            "wrong_steps",
            num_different(ranks[0]["after"], right["after"]),
            "steps that leave rank 0 with wrong weights",
            "Which call sums the gradient, what is in `part.grad` then, what fills `weights`?",
        ),
        Fact(
            "wrong_ranks",
            sum(num_different(each["after"], right["after"]) > 0 for each in ranks),
            "ranks with wrong weights",
            "Rank 0 has the right weights after each step, and some other rank does not. What "
            "fills `weights` on that rank, and with whose parts?",
        ),
        Fact(
            "wrong_parts",
            sum(num_different([each["part"]], [part]) for each, part in parts),
            "ranks whose part is wrong",
            "`weights` is right everywhere, and `part` is not this rank's piece of it. Which "
            "tensor is updated, and what do you write into `part`?",
        ),
        Fact(
            "length",
            length_of(ranks[0]["after"][-1:]),
            "the norm of the weights in the end",
            "Which numbers of rank 0's `weights` differ after two steps from those that one "
            "optimizer would give, and which rank is responsible for them?",
        ),
        Fact("calls", most_calls(run), "calls in two steps", TWO_CALLS),
        Fact("sent_bytes", run.sent_bytes(), "bytes that rank 0 sends", TWO_CALLS),
        Fact(
            "seconds",
            run.step_seconds,
            "virtual seconds of two steps",
            "Rank 0 sends the right bytes, and the time of the step is wrong. Does every rank "
            "send as much as rank 0, and in which call does a rank wait longer than it must?",
        ),
    ]
