"""What is observed of prefetching: gradients, calls, times, and lives of whole tensors."""

import math
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_different
from autograder.observers.on_ranks import (
    BYTES_PER_SECOND,
    FLOAT64_BYTES,
    LATENCY_SECONDS,
    NETWORK,
    record_on_cluster,
)
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of
from course_utils.distributed import Comm, VirtualCluster
from course_utils.instruments import MemoryTrace, trace_memory

NUM_ROWS = 3


def cluster_of(case: Case) -> VirtualCluster:
    """A forward product takes `slack` times as long as a gather, and backward twice that."""
    ranks, width = case["num_ranks"], case["width"]
    gather = (ranks - 1) * LATENCY_SECONDS
    gather += (ranks - 1) / ranks * width**2 * FLOAT64_BYTES / BYTES_PER_SECOND
    rate = 2 * NUM_ROWS * width**2 / (case["slack"] * max(gather, LATENCY_SECONDS))
    return VirtualCluster(ranks, network=NETWORK, flops_per_second=rate)


def weight_of(case: Case, layer: int) -> Tensor:
    """The whole weight of a layer."""
    (weight,) = normal_numbers(layer, (case["width"], case["width"]))
    return weight


def input_of(case: Case, rank: int) -> Tensor:
    """A rank's rows."""
    (rows,) = normal_numbers(50 + rank, (NUM_ROWS, case["width"]))
    return rows


def uses_of(case: Case) -> list[int]:
    """Layers as they are needed."""
    layers = range(case["num_layers"])
    return [*layers, *reversed(layers)]


class Layers:
    """Products in a row, forward and backward, as they are told; keeps inputs for backward."""

    def __init__(self, case: Case, rank: int) -> None:
        """Begin with a rank's rows; the loss is the sum of all results."""
        self.case, self.uses = case, uses_of(case)
        self.inputs, self.rows = list[Tensor](), input_of(case, rank)

    def compute(self, number: int, weight: Tensor) -> Tensor | None:
        """Run one use: forward None, backward the flat gradient of the weight."""
        width, num_layers = self.case["width"], self.case["num_layers"]
        square = weight.view(width, width)
        if number < num_layers:
            self.inputs.append(self.rows)
            self.rows = self.rows @ square.T
            return None
        if number == num_layers:
            self.rows = torch.ones_like(self.rows)
        dy, x = self.rows, self.inputs[self.uses[number]]
        self.rows = dy @ square
        return (dy.T @ x).flatten()


def parts_of(case: Case, rank: int) -> list[Tensor]:
    """A rank's part of each layer."""
    layers = range(case["num_layers"])
    wholes = (weight_of(case, layer).flatten() for layer in layers)
    return [whole.chunk(case["num_ranks"])[rank].clone() for whole in wholes]


def _on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    parts, layers = parts_of(case, comm.rank), Layers(case, comm.rank)
    gradients = [torch.full_like(each, 7.0) for each in parts]
    arguments = parts, uses_of(case), layers.compute, gradients
    lives: list[list[int]] = []
    if case["scenario"] == "memory":
        trace = trace_memory(lambda: answer(comm, *arguments), *parts, *gradients)
        lives = _lives_of_wholes(trace, FLOAT64_BYTES * case["width"] ** 2)
    else:
        answer(comm, *arguments)
    return {"gradients": [each.clone() for each in gradients], "lives": lives}


def _lives_of_wholes(trace: MemoryTrace, whole_bytes: int) -> list[list[int]]:
    """Of each whole tensor whether a product made it, when it was made, and when freed, or -1."""
    return [
        [int(each.operation == "mm"), each.born, -1 if each.died is None else each.died]
        for each in trace.storages
        if each.storage_bytes == whole_bytes
    ]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Gradients of each rank, its calls, and when each whole tensor was made and freed."""
    return record_on_cluster(cluster_of(case), _on_rank, answer, case)._asdict()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Wrong gradients, calls, time and whole tensors; less time and memory is fine."""
    run, forged_calls = replay(observed["logs"], cluster_of(case))
    names = [each.name.split(" #")[0] for each in run.communications()]
    gathers, scatters = names.count("all_gather"), names.count("reduce_scatter")
    pairs = zip(observed["ranks"], right["gradients"], strict=True)
    exposed_seconds, weights_alive, gradients_alive = (
        right[name] for name in ("exposed_seconds", "weights_alive", "gradients_alive")
    )
    if case["scenario"] == "time":
        exposed = max(run.step_seconds - run.compute_seconds(r) for r in range(run.num_ranks))
        exposed_seconds = max(exposed_seconds, exposed)
    if case["scenario"] == "memory" and case["num_ranks"] > 1:
        lives = [each["lives"] for each in observed["ranks"]]
        weights_alive, gradients_alive = (
            # Two are allowed: the one in use and the one on its way.
            max(2, *(_most_alive(each, is_gradient) for each in lives))
            for is_gradient in (0, 1)
        )
    return [
        forged(forged_calls),
        Fact(
            "wrong_gradients",
            sum(num_different(one["gradients"], other) for one, other in pairs),
            "wrong gradients of all ranks together",
            "For which layer does each use run, and which part of its summed gradient is this "
            "rank's?",
        ),
        Fact(
            "length",
            length_of(each for one in observed["ranks"] for each in one["gradients"]),
            "the norm of all gradients",
            "Which numbers does each of the `gradients` hold at the end, and which of them are not "
            "those of the sum over all ranks?",
        ),
        Fact(
            "gathers",
            gathers,
            "gathers",
            "Every use gathers anew. How many uses are there?",
        ),
        Fact(
            "scatters",
            scatters,
            "scatters",
            "In which uses does `compute` return a gradient, and which call do you make for each "
            "of them?",
        ),
        Fact(
            "other_calls",
            len(names) - gathers - scatters,
            "other calls",
            "Which of your calls is neither an all-gather nor a reduce-scatter, and what does it "
            "bring that those two do not?",
        ),
        Fact(
            "exposed_seconds",
            exposed_seconds,
            "virtual seconds of the step beyond compute",
            "Between the call and the wait of each transfer, what is computed?",
        ),
        Fact(
            "weights_alive",
            weights_alive,
            "whole weights alive at once",
            "Which whole weights are there while one layer runs, and which variables hold them?",
        ),
        Fact(
            "gradients_alive",
            gradients_alive,
            "whole gradients alive at once",
            "Which whole gradients are there when a new one is made?",
        ),
    ]


def _most_alive(lives: list[list[int]], is_gradient: int) -> int:
    """The most whole weights or gradients at one moment."""
    ends = [(b, math.inf if d < 0 else d) for kind, b, d in lives if kind == is_gradient]
    return max((sum(b <= born < d for b, d in ends) for born, _ in ends), default=0)
