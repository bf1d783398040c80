"""A result of attention and its log-sum-exp beside the right ones."""

from torch import Tensor

from autograder.checking.fact import Fact
from autograder.observers.checksums import checksum, wrong_rows
from autograder.observers.tools import require_pair, require_tensor


def pair_of_tensors(value: object) -> tuple[Tensor, Tensor]:
    """A result and its log-sum-exp, as an answer returns them.

    Raises:
        WrongForm: If it is something else.
    """
    result, lse = map(require_tensor, require_pair(value, "a pair of tensors, result and lse"))
    return result.detach().double(), lse.detach().double()


def facts_beside(
    ours: tuple[Tensor, Tensor],
    theirs: tuple[Tensor, Tensor],
    *,
    ask_of_result: str,
    ask_of_lse: str,
) -> list[Fact]:
    """Wrong rows of a result and of its log-sum-exp, and the checksums of both."""
    (result, lse), (right_result, right_lse) = ours, theirs
    return [
        Fact(
            "wrong_rows",
            wrong_rows(result, right_result),
            "rows of the result that are wrong",
            ask_of_result,
        ),
        Fact(
            "wrong_lse", wrong_rows(lse, right_lse), "rows whose log-sum-exp is wrong", ask_of_lse
        ),
        Fact(
            "result_checksum",
            checksum(result, right_result),
            "the sum of all results, each with a weight of its own",
            ask_of_result,
        ),
        Fact(
            "lse_checksum",
            checksum(lse, right_lse),
            "the sum of all log-sum-exps, each with a weight of its own",
            ask_of_lse,
        ),
    ]
