"""What is observed of clipping a sharded gradient: norms, parts and calls of each rank."""

from itertools import chain
from typing import Any

from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.result_form import require_as_many
from autograder.observers.comparing import is_nearly
from autograder.observers.on_ranks import cluster_of, most_calls, record_on_ranks
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, length_of, require_one_number
from course_utils.distributed import Comm

ONE_NUMBER = "Which one number must a rank tell others?"


def gradients_of(case: Case, rank: int) -> list[Tensor]:
    """A rank's parts; some may be empty."""
    lengths = [max(0, each - rank) for each in case["lengths"]]
    return normal_numbers(10 * rank + sum(case["lengths"]), *lengths)


def _on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    gradients = gradients_of(case, comm.rank)
    norm = answer(comm, gradients, case["max_norm"])
    number = require_one_number(norm, "the norm, a number")
    return {"norm": number, "gradients": [each.clone() for each in gradients]}


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Norm and parts of each rank, and what it did."""
    return record_on_ranks(case["num_ranks"], _on_rank, answer, case)._asdict()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Norms and parts beside those of the whole vector; calls and bytes."""
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    num_bytes = sum(each.num_bytes for each in run.communications())
    return [
        forged(forged_calls),
        Fact(
            "norm",
            ranks[0]["norm"],
            "the norm that rank 0 returns",
            "How does the norm of the whole follow from the parts' norms?",
        ),
        Fact(
            "norm_on_last",
            ranks[-1]["norm"],
            "the norm that the last rank returns",
            "Rank 0 returns the right norm. From which numbers does the last rank make the norm "
            "that it returns, and what do empty parts contribute?",
        ),
        Fact(
            "length",
            length_of(each for rank in ranks for each in rank["gradients"]),
            "the norm of all parts afterwards",
            "By which factor does every number shrink, and when not at all?",
        ),
        Fact(
            "wrong_parts",
            _num_wrong([each["gradients"] for each in ranks], right["gradients"]),
            "wrong parts",
            "By which factor is each part scaled on each rank, and into which tensor is the "
            "product written?",
        ),
        Fact("calls", most_calls(run), "calls of a rank", ONE_NUMBER),
        Fact(
            "most_bytes", max(right["most_bytes"], num_bytes), "bytes in rank 0's calls", ONE_NUMBER
        ),
    ]


def _num_wrong(ours: list[list[Tensor]], theirs: list[list[Tensor]]) -> int:
    """How many parts of all ranks, of those that are not empty, hold other numbers."""
    for one, other in zip(ours, theirs, strict=True):
        require_as_many(one, other)
    pairs = zip(chain(*ours), chain(*theirs), strict=True)
    return sum(not is_nearly(part, right) for part, right in pairs if right.numel())
