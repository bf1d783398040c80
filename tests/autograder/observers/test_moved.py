"""The check of fused operations counts bytes as the instrument does, which is not there then."""

import pytest
import torch

from autograder.checking.lookup import check_of
from autograder.exercises.model_answers import ChangedAnswer, model_answer
from autograder.observers.u02 import fuse
from course_utils.instruments import count_bytes
from tests.answer_bank import bank_of, make

FUSE = bank_of("u02-fuse")
ANSWERS = {
    "model answer": model_answer("u02-fuse"),
    **{f"right {n}": make(each, FUSE.function) for n, each in enumerate(FUSE.right)},
    **{each.name: make(each.source, FUSE.function) for each in FUSE.wrong},
    **{
        f"edit {n}": each.answer
        for n, each in enumerate(check_of("u02-fuse").judge.mistakes)
        if isinstance(each, ChangedAnswer)
    },
    "copied into a buffer": lambda scores, bias, scale: (
        torch.empty_like(scores).copy_(bias).add_(scores, alpha=scale).softmax(-1)
    ),
    "filled, then added": lambda scores, bias, scale: (
        torch.full_like(scores, 0.0).fill_(1.0).mul_(bias).add_(scores, alpha=scale).softmax(-1)
    ),
    "a number read": lambda scores, bias, scale: scores * float(bias[0, 0]) * scale,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_bytes_of_the_check_are_those_of_the_instrument(answer, number):
    case = check_of("u02-fuse").cases(0)[number]
    inputs = fuse.inputs_of(case)
    wanted = count_bytes(lambda: answer(*inputs)).num_bytes
    assert fuse.observe(answer, case)["moved_bytes"] == wanted
