"""One thread inside, and the former number afterwards."""

import pytest
import torch

from autograder.checking.exercise_check import Check
from autograder.checking.judges import ValueJudge
from autograder.checking.mistakes import ONLY
from autograder.checking.scoring import score_answer
from autograder.checking.single_thread import one_thread


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_threads_are_restored_even_after_an_error(two_threads):
    with pytest.raises(KeyError), one_thread():
        assert torch.get_num_threads() == 1
        raise KeyError
    assert torch.get_num_threads() == 2


def test_an_answer_is_scored_in_one_thread(two_threads):
    check = Check(cases=lambda seed: [{"n": 1}], judge=ValueJudge(lambda n: n))
    result = score_answer(check, lambda n: torch.get_num_threads(), [1])
    assert [case.result.given for case in result.cases] == [{ONLY: 1}]
    assert torch.get_num_threads() == 2
