"""One thread inside, and as many as before afterwards."""

import pytest
import torch

from autograder.checking.check import Check, score_answer
from autograder.checking.judges import EqualTo
from autograder.checking.single_thread import one_thread


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_threads_are_put_back_also_after_an_error(two_threads):
    with pytest.raises(KeyError), one_thread():
        assert torch.get_num_threads() == 1
        raise KeyError
    assert torch.get_num_threads() == 2


def test_an_answer_is_examined_in_one_thread(two_threads):
    check = Check(cases=lambda seed: [{"n": 1}], judge=EqualTo(lambda n: n), reference=abs)
    seen = score_answer(check, lambda n: torch.get_num_threads(), [1])
    assert [trial.value for trial in seen.trials] == [1]
    assert torch.get_num_threads() == 2
