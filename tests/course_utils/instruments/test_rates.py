"""Rates by hand, and two streams of a simulated GPU."""

import contextlib

import pytest
import torch
from torch.nn import functional as F

from course_utils.instruments import Timing, rates
from course_utils.instruments.rates import Overlap, measure_overlap, on_two_streams


@pytest.fixture
def two_seconds(monkeypatch):
    """Every call takes two seconds in its fastest run; gives the calls that were timed."""
    calls = []

    def time_call(call, **_):
        calls.append(call())
        return Timing(seconds=(4.0, 2.0), device="CPU")

    monkeypatch.setattr(rates, "time_call", time_call)
    return calls


def test_rates_count_two_operations_and_two_passes(two_seconds):
    """2 * 8 * 16 * 24 / 2 FLOP/s, and 2 * 100 / 2 bytes/s."""
    product = rates.product_flops_per_second(8, 16, 24, kind="fp32", device="cpu")
    assert product == 8 * 16 * 24
    assert rates.copy_bytes_per_second(100, device="cpu") == 100
    assert [(each.shape, each.dtype) for each in two_seconds] == [
        ((8, 24), torch.float32),
        ((100,), torch.uint8),
    ]


def test_a_kind_of_product_sets_how_fp32_multiplies_and_sets_it_back(monkeypatch):
    seen = []

    def time_call(call, **_):
        seen.append((torch.get_float32_matmul_precision(), call().dtype))
        return Timing(seconds=(1.0,), device="CPU")

    monkeypatch.setattr(rates, "time_call", time_call)
    before = torch.get_float32_matmul_precision()
    for kind in rates.KINDS:
        rates.product_flops_per_second(2, 2, 2, kind=kind, device="cpu")
    assert seen == [
        ("highest", torch.bfloat16),
        ("high", torch.float32),
        ("highest", torch.float32),
    ]
    assert torch.get_float32_matmul_precision() == before
    with pytest.raises(ValueError, match="there is no kind of product 'bf8'; near it: bf16"):
        rates.product_flops_per_second(2, 2, 2, kind="bf8", device="cpu")


@pytest.mark.parametrize("is_causal", [True, False])
def test_attention_is_timed_forward_and_backward_alone(two_seconds, is_causal):
    seconds = rates.attention_seconds(2, 8, 4, is_causal=is_causal, device="cpu")
    assert seconds == {"fwd": 2.0, "bwd": 2.0}
    out, gradients = two_seconds
    assert {each.shape for each in (out, *gradients)} == {(1, 2, 8, 4)}


def test_backward_gives_the_gradients_of_attention(two_seconds):
    torch.manual_seed(0)
    rates.attention_seconds(2, 8, 4, is_causal=True, device="cpu")
    torch.manual_seed(0)
    inputs = [torch.randn(1, 2, 8, 4, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    F.scaled_dot_product_attention(*inputs, is_causal=True).sum().backward()
    for ours, tensor in zip(two_seconds[1], inputs, strict=True):
        torch.testing.assert_close(ours, tensor.grad)


@pytest.mark.parametrize(("together", "hidden"), [(6.0, 1.0), (8.0, 0.0), (7.0, 0.5), (10.0, -1.0)])
def test_what_is_hidden_is_a_share_of_the_shorter_call(together, hidden):
    overlap = Overlap(first_seconds=6.0, second_seconds=2.0, together_seconds=together)
    assert overlap.hidden_fraction == hidden


@pytest.fixture
def log(monkeypatch):
    """What a simulated GPU is told, in order."""
    said = []

    class Stream:
        def __init__(self, name=""):
            self.name = name or f"s{sum('new' in each for each in said) + 1}"
            said.append(f"new {self.name}")

        def wait_stream(self, other):
            said.append(f"{self.name} waits for {other.name}")

    @contextlib.contextmanager
    def stream(chosen):
        said.append(f"on {chosen.name}")
        yield

    current = Stream("current")
    said.clear()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return said


def test_each_call_has_a_stream_between_two_waits(log):
    both = on_two_streams(lambda: log.append("compute"), lambda: log.append("copy"))
    both()
    assert log == [
        *["new s1", "new s2"],
        *["s1 waits for current", "on s1", "compute"],
        *["s2 waits for current", "on s2", "copy"],
        *["current waits for s1", "current waits for s2"],
    ]


def test_an_overlap_is_made_of_medians_after_a_warm_up(log, monkeypatch):
    times = iter([[3.0, 1.0, 2.0], [5.0, 5.0, 9.0], [6.0, 6.0, 6.0]])
    monkeypatch.setattr(rates, "seconds_on_gpu", lambda call, num_runs: next(times))
    calls = []
    overlap = measure_overlap(lambda: calls.append(1), lambda: calls.append(2), num_runs=3)
    assert overlap == Overlap(first_seconds=2.0, second_seconds=5.0, together_seconds=6.0)
    assert calls == [1, 2, 1, 2]


def test_product_and_copy_do_what_their_names_say():
    product, copy = rates.product_and_copy(4, 10, device="cpu")
    assert (product().shape, product().dtype) == ((4, 4), torch.bfloat16)
    assert copy().nbytes == 10


def test_without_a_gpu_there_are_no_streams(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="there is no GPU here"):
        measure_overlap(lambda: None, lambda: None)
    with pytest.raises(TypeError, match="measure_overlap wants a function that takes nothing"):
        measure_overlap(lambda: None, 3)
