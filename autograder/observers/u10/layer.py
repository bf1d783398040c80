"""What is observed of a sharded layer: gradients, calls, what autograd keeps, what is alive."""

import math
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_different
from autograder.observers.on_ranks import cluster_of, most_calls, record_on_ranks
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import (
    errors_as_data,
    length_of,
    require_tensor,
    undisturbed,
    upstream,
)
from course_utils.distributed import Comm, NullComm
from course_utils.instruments import count_saved_bytes, trace_memory

NUM_LAYERS = 3  # of the trace


def apply_of(answer: Any) -> Any:
    """The function that runs a layer: of an autograd function, or what was written in its place."""
    return getattr(answer, "apply", answer)


def weight_of(case: Case) -> Tensor:
    """The whole weight."""
    (weight,) = normal_numbers(case["rows"], case["shape"])
    return weight


def part_of(case: Case, rank: int) -> Tensor:
    """A rank's part of it, which requires a gradient."""
    whole = weight_of(case).flatten()
    return whole.chunk(case["num_ranks"])[rank].clone().requires_grad_()


def input_of(case: Case, rank: int) -> Tensor:
    """A rank's input, a leaf; one row more on each rank than on the one before."""
    (rows,) = normal_numbers(100 + rank, (case["rows"] + rank, case["shape"][1]))
    return rows.requires_grad_()


def _on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    """Result and gradients of one rank.

    The layer gets ``2 * x``, which is no leaf, so that autograd has to carry dx on to ``x``.
    """
    x, part = input_of(case, comm.rank), part_of(case, comm.rank)
    y = require_tensor(apply_of(answer)(comm, 2 * x, part, tuple(case["shape"])))
    y.backward(upstream(y))
    return {"y": y.detach().clone(), "dx": x.grad, "dpart": part.grad}


def _layers(comm: Comm, answer: Any, case: Case) -> list[list[int]]:
    """When each storage as large as the weight was made and freed, in layers one after another."""
    x, parts = input_of(case, comm.rank), [part_of(case, comm.rank) for _ in range(NUM_LAYERS)]

    def step() -> None:
        y = x
        for part in parts:
            y = torch.tanh(apply_of(answer)(comm, y, part, tuple(case["shape"])))
        y.backward(upstream(y))

    storages = trace_memory(step, x, *parts).storages
    whole = weight_of(case).nbytes
    return [
        [s.born, -1 if s.died is None else s.died] for s in storages if s.storage_bytes == whole
    ]


def _kept(answer: Any, case: Case) -> dict[str, int]:
    """Bytes that autograd keeps of one call, and bytes that stay alive unseen."""
    comm = NullComm(case["num_ranks"], case["num_ranks"] - 1)
    x, part = input_of(case, comm.rank), part_of(case, comm.rank)
    saved = count_saved_bytes(lambda: apply_of(answer)(comm, x, part, tuple(case["shape"])))
    return {"saved_bytes": saved.total_bytes, "unseen_bytes": saved.unseen_bytes}


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Numbers and calls of all ranks; for memory also bytes, and lives of whole weights."""
    with undisturbed():
        recorded = record_on_ranks(case["num_ranks"], _on_rank, answer, case)
        observed: dict[str, Any] = {"ranks": recorded.ranks, "logs": recorded.logs}
        if case["scenario"] == "memory":
            observed |= _kept(answer, case)
            observed["lives"] = record_on_ranks(case["num_ranks"], _layers, answer, case).ranks
    return observed


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Results and gradients beside those of the whole layer; calls, bytes, whole weights."""
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    names = [each.name.split(" #")[0] for each in run.communications()]
    kept = right  # where nobody has looked at memory
    if case["scenario"] == "memory":
        kept = observed | {"alive": max(1, *map(_most_alive, observed["lives"]))}
    return [
        forged(forged_calls),
        Fact(
            "missing_dx",
            sum(each["dx"] is None for each in ranks),
            "ranks without a gradient of the input",
            "Through which operation does autograd come back from the result to `x`, and what does "
            "`backward` return in the place of `x`?",
        ),
        Fact(
            "missing_dpart",
            sum(each["dpart"] is None for each in ranks),
            "ranks without a gradient of their part",
            "How does autograd know that the result was made of `part`, and what does `backward` "
            "return in the place of `part`?",
        ),
        Fact(
            "wrong_y",
            _num_wrong("y", ranks, right["ranks"]),
            "ranks with a wrong result",
            "What is the product of an input and a whole weight, and where does each part of the "
            "weight belong?",
        ),
        Fact(
            "wrong_dx",
            _num_wrong("dx", ranks, right["ranks"]),
            "ranks with a wrong gradient of the input",
            "Which product is the gradient of the input?",
        ),
        Fact(
            "wrong_dpart",
            _num_wrong("dpart", ranks, right["ranks"]),
            "ranks with a wrong gradient of their part",
            "Which product is the gradient of the weight, and which part of whose sum does this "
            "rank keep?",
        ),
        Fact(
            "length",
            length_of(each["dpart"] for each in ranks),
            "the norm of the gradient of all parts",
            "Put the gradients of all parts side by side. Which of their numbers differ from the "
            "weight's gradient, summed over all ranks?",
        ),
        Fact(
            "length_y",
            length_of(each["y"] for each in ranks),
            "the norm of all results",
            "Which numbers of a rank's result differ from the product of its `x` and the whole "
            "weight?",
        ),
        Fact(
            "length_dx",
            length_of(each["dx"] for each in ranks),
            "the norm of the gradient of all inputs",
            "Which numbers of a rank's gradient of `x` differ from those that the whole weight on "
            "a single rank would give?",
        ),
        Fact(
            "gathers",
            names.count("all_gather"),
            "gathers of rank 0",
            "One gather for forward, one for backward. Which calls do you make?",
        ),
        Fact(
            "scatters",
            names.count("reduce_scatter"),
            "scatters of rank 0",
            "Which call of yours brings a rank its part of the summed gradient, and how often is "
            "it made in backward?",
        ),
        Fact(
            "calls",
            most_calls(run),
            "calls of a rank",
            "One gather for forward, one for backward, one scatter. Which calls do you make?",
        ),
        Fact(
            "sent_bytes",
            run.sent_bytes(),
            "bytes that rank 0 sends",
            "How many numbers does each of the three calls carry, and in which precision?",
        ),
        Fact(
            "saved_bytes",
            kept["saved_bytes"],
            "bytes that autograd keeps",
            "Which tensors do you give to `save_for_backward`, and which of them does backward "
            "need?",
        ),
        Fact(
            "unseen_bytes",
            kept.get("unseen_bytes", 0),
            "bytes that stay alive where autograd does not see them",
            "When `forward` is over, which tensor of it is still alive, and what holds it other "
            "than `ctx.save_for_backward`?",
        ),
        Fact(
            "alive",
            kept["alive"],
            "tensors as large as the weight that are alive at once",
            "When is each whole weight made, and which variable holds it for how long?",
        ),
    ]


def _num_wrong(name: str, ours: list[dict[str, Tensor]], theirs: list[dict[str, Tensor]]) -> int:
    """On how many ranks a tensor is another one."""
    return sum(
        num_different([one[name]], [other[name]]) for one, other in zip(ours, theirs, strict=True)
    )


def _most_alive(lives: list[list[int]]) -> int:
    """The most of them at one moment."""
    ends = [(born, math.inf if died < 0 else died) for born, died in lives]
    return max((sum(b <= born < d for b, d in ends) for born, _ in ends), default=0)
