import pytest
import torch

from course_utils.instruments import watch_process

MIB = 2**20


def ones(mib: int) -> torch.Tensor:
    return torch.ones(mib * MIB // 4)


@pytest.fixture(autouse=True)
def warm():
    ones(64).add(1)


def test_what_is_kept_is_seen():
    grown = watch_process(lambda: ones(128))
    assert 128 * MIB <= grown.kept_bytes < 136 * MIB  # a few pages of the thread's own
    assert grown.peak_bytes >= grown.kept_bytes


def test_a_temporary_is_in_the_peak_alone():
    def call() -> torch.Tensor:
        temporary = ones(192)
        return temporary[: 16 * MIB].clone()  # 64 MiB, while the others are there

    grown = watch_process(call)
    assert 64 * MIB <= grown.kept_bytes < 72 * MIB
    assert 192 * MIB <= grown.peak_bytes < 264 * MIB


def test_an_error_comes_through_and_the_watching_ends():
    with pytest.raises(ZeroDivisionError):
        watch_process(lambda: 1 / 0)
