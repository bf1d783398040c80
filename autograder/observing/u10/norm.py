"""What is observed of clipping a sharded gradient: norms, parts and calls of each rank."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.checking.result_form import require_as_many
from autograder.observing.comparing import is_nearly
from autograder.observing.observation import errors_as_data, length_of, require_one_number
from autograder.observing.replay import replay
from autograder.observing.u09.on_ranks import cluster_of, most_calls, record_on_ranks
from course_utils.distributed import Comm


def gradients_of(case: Case, rank: int) -> list[Tensor]:
    """A rank's parts; some may be empty."""
    generator = torch.Generator().manual_seed(10 * rank + sum(case["lengths"]))
    lengths = [max(0, each - rank) for each in case["lengths"]]
    return [torch.randn(each, generator=generator, dtype=torch.float64) for each in lengths]


def _on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    gradients = gradients_of(case, comm.rank)
    norm = answer(comm, gradients, case["max_norm"])
    number = require_one_number(norm, "the norm, a number")
    return {"norm": number, "gradients": [each.clone() for each in gradients]}


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Norm and parts of each rank, and what it did."""
    recorded = record_on_ranks(case["num_ranks"], _on_rank, answer, case)
    return {"ranks": recorded.results, "logs": recorded.logs}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, float]:
    """Norms and parts beside those of the whole vector; calls and bytes."""
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    pairs = list(zip(ranks, right["gradients"], strict=True))
    for one, other in pairs:
        require_as_many(one["gradients"], other)
    return {
        "forged_calls": forged_calls,
        "norm": ranks[0]["norm"],
        "norm_on_last": ranks[-1]["norm"],
        "length": length_of(each for rank in ranks for each in rank["gradients"]),
        "wrong_parts": sum(
            not is_nearly(*each)
            for one, other in pairs
            for each in zip(one["gradients"], other, strict=True)
            if each[1].numel()
        ),
        "calls": most_calls(run),
        "most_bytes": max(right["most_bytes"], sum(e.num_bytes for e in run.communications())),
    }
