"""Instruments run quickly on small tensors and leave no trace in a student's kernel."""

import gc

import pytest
import torch

from course_utils.checks.u05.quickly import quickly


def test_threads_and_collector_are_as_before():
    before = torch.get_num_threads(), gc.get_freeze_count(), gc.isenabled()
    with quickly():
        assert torch.get_num_threads() == 1
        assert gc.get_freeze_count() > 0
    assert (torch.get_num_threads(), gc.get_freeze_count(), gc.isenabled()) == before


def test_also_after_an_error():
    before = torch.get_num_threads(), gc.get_freeze_count()
    with pytest.raises(KeyError), quickly():
        raise KeyError
    assert (torch.get_num_threads(), gc.get_freeze_count()) == before
