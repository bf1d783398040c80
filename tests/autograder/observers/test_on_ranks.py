"""A student's function on ranks: errors come through unchanged, endless loops stop the scoring."""

import pytest
import torch

from autograder.checking.lookup import check_of
from autograder.checking.scoring import score_answer
from autograder.observers import on_ranks
from course_utils.distributed import DeadlockError


def test_an_error_of_a_rank_is_the_students_own():
    with pytest.raises(ZeroDivisionError):
        on_ranks.record_on_ranks(2, lambda comm: 1 / comm.rank)


def test_a_deadlock_is_raised_as_one():
    with pytest.raises(DeadlockError):
        on_ranks.record_on_ranks(2, lambda comm: comm.rank or comm.all_reduce(torch.ones(1)))


def test_a_loop_without_end_is_stopped_in_its_first_case(monkeypatch):
    monkeypatch.setattr(on_ranks, "LIMIT_SECONDS", 0.2)

    def share_of_mean(comm, summed_loss, num_targets):
        while True:
            pass

    result = score_answer(check_of("u09-global-mean"), share_of_mean, [1])
    verdict = result.verdict("u09-global-mean", 2, tell_all=True)
    assert verdict.sentence.startswith("Stopped after")
    assert result.cases == ()
