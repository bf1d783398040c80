"""Quick traces change threads and collector only inside, and not the traces."""

import gc

import pytest
import torch
from torch import nn

from course_utils.checks.u04.quick import quick_traces
from course_utils.instruments import trace_memory


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_all_is_put_back_also_after_an_error():
    with pytest.raises(KeyError), quick_traces():
        assert torch.get_num_threads() == 1
        assert gc.get_freeze_count() > 0
        raise KeyError
    assert torch.get_num_threads() == 2
    assert gc.get_freeze_count() == 0


def test_what_somebody_else_froze_stays_frozen():
    gc.freeze()
    try:
        with quick_traces():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_the_trace_is_the_same():
    layer = nn.Linear(3, 5)
    plain = trace_memory(lambda: layer(torch.ones(2, 3)).sum().backward(), layer)
    layer.zero_grad()
    with quick_traces():
        quick = trace_memory(lambda: layer(torch.ones(2, 3)).sum().backward(), layer)
    assert quick == plain
