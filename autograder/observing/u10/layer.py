"""What is observed of a sharded layer: gradients, calls, what autograd keeps, what is alive."""

import math
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.comparing import num_different
from autograder.observing.observation import (
    errors_as_data,
    length_of,
    require_tensor,
    undisturbed,
    upstream,
)
from autograder.observing.replay import replay
from autograder.observing.u09.on_ranks import cluster_of, most_calls, record_on_ranks
from course_utils.distributed import Comm, NullComm
from course_utils.instruments import count_saved_bytes, trace_memory

NUM_LAYERS = 3  # of the trace


def apply_of(answer: Any) -> Any:
    """The function that runs a layer: of an autograd function, or what was written in its place."""
    return getattr(answer, "apply", answer)


def weight_of(case: Case) -> Tensor:
    """The whole weight."""
    generator = torch.Generator().manual_seed(case["rows"])
    return torch.randn(case["shape"], generator=generator, dtype=torch.float64)


def part_of(case: Case, rank: int) -> Tensor:
    """A rank's part of it, which requires a gradient."""
    whole = weight_of(case).flatten()
    return whole.chunk(case["num_ranks"])[rank].clone().requires_grad_()


def input_of(case: Case, rank: int) -> Tensor:
    """A rank's input, a leaf; one row more on each rank than on the one before."""
    generator = torch.Generator().manual_seed(100 + rank)
    rows = case["rows"] + rank
    shape = (rows, case["shape"][1])
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def _on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    """Result and gradients; what stands in ``grad`` before is another time's."""
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
        observed: dict[str, Any] = {"ranks": recorded.results, "logs": recorded.logs}
        if case["scenario"] == "memory":
            observed |= _kept(answer, case)
            observed["lives"] = record_on_ranks(case["num_ranks"], _layers, answer, case).results
    return observed


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Results and gradients beside those of the whole layer; calls, bytes, whole weights."""
    ranks, wanted = observed["ranks"], right["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    names = [each.name.split(" #")[0] for each in run.communications()]
    kept = {name: right[name] for name in ("saved_bytes", "unseen_bytes", "alive")}
    if case["scenario"] == "memory":
        kept = {name: observed[name] for name in ("saved_bytes", "unseen_bytes")}
        kept["alive"] = max(1, *map(_most_alive, observed["lives"]))
    return {
        "forged_calls": forged_calls,
        **{
            f"missing_{name}": sum(each[name] is None for each in ranks) for name in ("dx", "dpart")
        },
        **{
            f"wrong_{name}": sum(
                num_different([ours[name]], [theirs[name]])
                for ours, theirs in zip(ranks, wanted, strict=True)
            )
            for name in ("y", "dx", "dpart")
        },
        **{
            name: length_of(each[of] for each in ranks)
            for name, of in (("length", "dpart"), ("length_y", "y"), ("length_dx", "dx"))
        },
        "gathers": names.count("all_gather"),
        "scatters": names.count("reduce_scatter"),
        "calls": most_calls(run),
        "sent_bytes": run.sent_bytes(),
        **kept,
    }


def _most_alive(lives: list[list[int]]) -> int:
    """The most of them at one moment."""
    ends = [(born, math.inf if died < 0 else died) for born, died in lives]
    return max((sum(b <= born < d for b, d in ends) for born, _ in ends), default=0)
