"""The instruments on a real GPU; without one every test is skipped."""

from itertools import product

import pytest
import torch

from course_utils.configs import Kernels, RunConfig, precision
from course_utils.instruments import (
    fake_tensors,
    measure_peak,
    time_call,
    trace_allocator,
    trace_memory,
)
from course_utils.reference import Training
from tests.gpu.counts import count_block
from tests.gpu.setting import TINY
from tests.needs import GPU, needs

pytestmark = [pytest.mark.gpu, needs(GPU)]


def training(device: str) -> Training:
    run = RunConfig(micro_batch_size=2, seq_len=64, precision=precision("bf16"))
    return Training(TINY, run, adamw="fused", device=device)


def test_more_work_takes_longer():
    small, large = (torch.randn(n, n, device="cuda") for n in (256, 4096))
    timings = [time_call(lambda x=x: x @ x) for x in (small, large)]
    assert timings[0].median_seconds < timings[1].median_seconds
    assert timings[0].device == torch.cuda.get_device_name()


def test_the_peak_of_one_tensor_is_its_bytes():
    peak = measure_peak(lambda: torch.empty(3 * 2**20 + 5, dtype=torch.uint8, device="cuda"))
    assert peak.requested_bytes == 3 * 2**20 + 5
    assert peak.allocated_bytes == 3 * 2**20 + 512
    assert peak.reserved_bytes >= peak.allocated_bytes


def test_a_call_that_does_not_fit_leaves_nothing_behind():
    before = torch.cuda.memory_allocated()

    def call():
        kept = torch.empty(2**20, device="cuda")
        return kept, torch.empty(2**45, device="cuda")

    peak = measure_peak(call)
    assert not peak.fits
    assert peak.wanted_bytes == 2**47
    assert torch.cuda.memory_allocated() == before


def test_the_history_of_a_step_is_nearly_what_operations_need(tmp_path):
    work = training("cuda")
    work.step()  # allocates cuBLAS's workspace and the optimizer's states
    trace = trace_allocator(work.step, *work.owners, num_steps=2, path=tmp_path / "memory.pickle")
    with fake_tensors():
        oracle = training("cpu")
        expected = trace_memory(oracle.step, *oracle.owners, num_steps=3)
    names = ("forward", "backward", "step")
    assert [phase[:2] for phase in trace.phases] == list(product((1, 2), names))
    at_end = trace.live_at(trace.num_operations)
    expected_at_end = expected.live_at(expected.num_operations)
    for category in ("parameters", "optimizer_states"):
        assert at_end[category] == expected_at_end[category]
    assert (tmp_path / "memory.pickle").stat().st_size > 0


def test_the_history_peaks_where_the_allocator_says():
    work = training("cuda")
    work.step()
    at_start = torch.cuda.memory_stats()["requested_bytes.all.current"]
    peak = measure_peak(work.step)
    trace = trace_allocator(work.step, *work.owners)
    assert trace.peak_bytes - trace.total_bytes[0] == peak.requested_bytes
    assert trace.total_bytes[0] == at_start


@pytest.mark.parametrize("kind", ["multi-head", "grouped", "multi-query"])
def test_a_gpu_keeps_the_bytes_and_spends_the_flops_of_a_cpu(kind):
    on_cpu, on_gpu = (
        count_block(kind, Kernels(is_attention_fused=False), torch.bfloat16, device)
        for device in ("cpu", "cuda")
    )
    assert on_cpu == on_gpu
