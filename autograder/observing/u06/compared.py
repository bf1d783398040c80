"""A result of attention and its log-sum-exp beside the right ones."""

from torch import Tensor

from autograder.observing.checksums import checksum, wrong_rows
from autograder.observing.observation import require_pair, require_tensor

RESULT_LABELS = {
    "wrong_rows": "rows of the result that are wrong",
    "wrong_lse": "rows whose log-sum-exp is wrong",
    "result_checksum": "the sum of all results, each with a weight of its own",
    "lse_checksum": "the sum of all log-sum-exps, each with a weight of its own",
}


def pair_of_tensors(value: object) -> tuple[Tensor, Tensor]:
    """A result and its log-sum-exp, as an answer returns them.

    Raises:
        WrongForm: If it is something else.
    """
    result, lse = map(require_tensor, require_pair(value, "a pair of tensors, result and lse"))
    return result.detach().double(), lse.detach().double()


def beside(result: Tensor, lse: Tensor, right: tuple[Tensor, Tensor]) -> dict[str, float]:
    """Wrong rows of both, and their checksums."""
    return {
        "wrong_rows": wrong_rows(result, right[0]),
        "wrong_lse": wrong_rows(lse, right[1]),
        "result_checksum": checksum(result, right[0]),
        "lse_checksum": checksum(lse, right[1]),
    }
