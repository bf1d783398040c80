"""What is observed of a flat shard: parts, wholes, what a rank keeps, and its calls."""

import math
from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.comparing import is_equal
from autograder.observers.on_ranks import calls_made, cluster_of, most_calls, record_on_ranks
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, require_tensor
from course_utils.distributed import Comm, CommError
from course_utils.instruments import trace_memory


def tensors_of(case: Case) -> list[Tensor]:
    """Tensors of the shapes of a case, without a zero in them."""
    dtype = getattr(torch, case["dtype"])
    numbers = torch.arange(1, 1 + sum(map(math.prod, case["shapes"])), dtype=dtype)
    pieces = numbers.split([math.prod(shape) for shape in case["shapes"]])
    return [piece.view(shape).clone() for piece, shape in zip(pieces, case["shapes"], strict=True)]


def _on_rank(comm: Comm, answer: Any, case: Case) -> dict[str, Any]:
    """The part and the whole before and after each rank has changed its part; bytes kept."""
    made: list[Any] = []

    def make() -> None:
        made.append(answer(comm, tensors_of(case)))
        torch.zeros(())  # one more operation, after the call has freed its memory

    trace = trace_memory(make)
    shard = made[0]
    part = require_tensor(shard.part).detach().clone()
    whole = _whole(shard, part, case)
    with torch.no_grad():
        shard.part.add_(comm.rank + 1)
    changed = _whole(shard, part, case)
    scalar_bytes = 4  # of `torch.zeros(())`, which is freed at once
    kept = trace.total_bytes[-1] - scalar_bytes
    return {"part": part, "whole": whole, "changed": changed, "kept_bytes": kept}


def _whole(shard: Any, part: Tensor, case: Case) -> list[Tensor]:
    """The whole; none if it fails and the length of the part, which is judged, says why."""
    try:
        whole = shard.whole()
        if not isinstance(whole, list | tuple):
            raise WrongForm("a list of tensors", describe(whole))
        return [require_tensor(each).detach().clone() for each in whole]
    except (CommError, NotImplementedError):
        raise
    except RuntimeError:
        num_numbers = sum(map(math.prod, case["shapes"]))
        if part.numel() == -(-num_numbers // case["num_ranks"]):
            raise
        return []


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """What each rank has, and all calls."""
    return record_on_ranks(case["num_ranks"], _on_rank, answer, case)._asdict()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Parts and wholes beside the right ones; bytes and calls."""
    ranks = observed["ranks"]
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    parts = [each["part"] for each in ranks]
    return [
        forged(forged_calls),
        Fact(
            "length",
            parts[0].numel(),
            "numbers in the part of rank 0",
            "How many numbers do all tensors have together, how many zeros of padding follow, and "
            "how long is each rank's part then?",
        ),
        Fact(
            "length_on_last",
            parts[-1].numel(),
            "numbers in the part of the last rank",
            "The part of rank 0 is as long as it should be. What does the last rank hold where the "
            "numbers run out?",
        ),
        calls_made(
            most_calls(run),
            "One gather for each whole, and none before. Which calls do you make?",
        ),
        Fact(
            "sent_bytes",
            run.sent_bytes(),
            "bytes that rank 0 sends",
            "Which tensor does the call in `whole` send, how many numbers does it have, and in "
            "which precision?",
        ),
        Fact(
            "dimensions",
            max(each.dim() for each in parts),
            "dimensions of a part",
            "Which shape does `self.part` have, and which shape does a flat row of numbers have?",
        ),
        Fact(
            "wrong_parts",
            _num_unlike(parts, right["parts"]),
            "ranks with a wrong part",
            "Which numbers does this rank own, and what stands behind the last?",
        ),
        Fact(
            "wrong_wholes",
            sum(_num_unlike(each["whole"], right["whole"]) for each in ranks),
            "wrong tensors in the whole",
            "In which order do the gathered parts lie side by side, where in them does each tensor "
            "begin, and which shape and dtype had it?",
        ),
        Fact(
            "stale_wholes",
            sum(_num_unlike(each["changed"], right["changed"]) for each in ranks),
            "wrong tensors in the whole, after each rank has changed its part",
            "Between two calls of `whole()` each `self.part` changes in place. From which tensor "
            "does the second call gather, and when was that tensor filled?",
        ),
        Fact(
            "kept_bytes",
            max(right["kept_bytes"], *(each["kept_bytes"] for each in ranks)),
            "bytes that a rank keeps",
            "A rank keeps its part and nothing else. What still holds the rest?",
        ),
    ]


def _num_unlike(ours: list[Tensor], theirs: list[Tensor]) -> int:
    """How many tensors are not the right ones, in shape, dtype or numbers."""
    if len(ours) != len(theirs):
        return max(len(ours), len(theirs))
    pairs = zip(ours, theirs, strict=True)
    return sum(one.dtype != other.dtype or not is_equal(one, other) for one, other in pairs)
