"""What is observed of attention: its numbers, and what it keeps with the projection after it."""

from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_rounded, same_numbers
from autograder.observers.kept import (
    facts_beside,
    kept_bytes,
    observe_kept,
    observe_numbers,
    rounded_results,
    saved,
    unseen,
)
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import errors_as_data, require_tensor
from course_utils.reference.fused import rotate


def inputs_of(case: Case) -> list[Tensor]:
    """Queries, keys and values, before tokens and heads change places."""
    counts = (case["num_heads"], case["num_kv_heads"], case["num_kv_heads"])
    side = (case["num_sequences"], case["seq_len"])
    shapes = [(*side, count, case["head_dim"]) for count in counts]
    tensors = normal_numbers(case["seq_len"] * case["num_heads"], *shapes)
    return [each.requires_grad_() * 1 for each in tensors]


def projection_of(case: Case) -> nn.Linear:
    """The output projection, which keeps its input."""
    width = case["num_heads"] * case["head_dim"]
    return nn.Linear(width, 3, bias=False, dtype=torch.float64)


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Result and gradients of the student's attention; what it keeps with the projection."""
    projection = projection_of(case)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return answer(q, k, v, rotate)

    def with_projection(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        result = require_tensor(attention(q, k, v))
        return projection(result) if result.shape[-1:] == projection.weight.shape[1:] else result

    numbers = observe_numbers(attention, inputs_of(case))
    return numbers | observe_kept(with_projection, inputs_of(case), projection)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Entries of first, last and other tokens that are wrong; gradients and bytes."""
    wrong = _wrong_entries(observed["result"], right["result"])
    rounded = num_rounded([observed["result"]], [right["result"]])
    if rounded:
        wrong = torch.zeros_like(wrong)
    kept = kept_bytes(observed)
    return [
        Fact(
            "other_shape",
            int(observed["result"].shape != right["result"].shape),
            "The shape of the result is wrong.",
            "The result has the shape (b, s, a·d). Which shape comes out of your attention, and "
            "what becomes of each of its axes after that?",
        ),
        Fact(
            "wrong_first",
            int(wrong[:, 0].sum()),
            "wrong numbers at first tokens",
            "Even the first token's result is wrong, and that token sees only itself: its result "
            "is its value. What do you do to v on the way there?",
        ),
        Fact(
            "wrong_between",
            int(wrong[:, 1:-1].sum()),
            "wrong numbers at tokens in between",
            "Only first tokens are right. Which keys may others see, and are q and k rotated?",
        ),
        Fact(
            "wrong_last",
            int(wrong[:, -1].sum()),
            "wrong numbers at last tokens",
            "Only last tokens are wrong. How many keys may the last token of a sequence see, and "
            "does your attention treat it differently from the tokens before it?",
        ),
        rounded_results(rounded),
        *facts_beside(
            observed,
            right,
            inputs_of(case),
            "The result is right, gradients are not. Go back from the result to q, k and v, one "
            "operation at a time: is each of them recorded, and which gradient does it pass on?",
        ),
        Fact(
            "kept_scores",
            int(_score_bytes(case) in [each for _, each in observed["saved"]]),
            "The scores of all pairs of tokens are kept.",
            "Which operation makes the scores, and which one could do it without keeping them?",
        ),
        saved(
            kept["saved_bytes"],
            "The numbers are right, the bytes are not. Which tensors does each operation keep, and "
            "is there one with fewer?",
        ),
        unseen(kept["unseen_bytes"]),
    ]


def _score_bytes(case: Case) -> int:
    """Bytes of the scores of all heads; nothing else here is as large."""
    return int(8 * case["num_sequences"] * case["num_heads"] * case["seq_len"] ** 2)


def _wrong_entries(ours: Tensor, theirs: Tensor) -> Tensor:
    """Which entries differ; all of them where the shape does."""
    return ~same_numbers(ours, theirs)
