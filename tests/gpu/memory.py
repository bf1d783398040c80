"""Does a trace on fake tensors predict the peak of a real device?

Each configuration is traced without memory and run for two steps. A row has the bytes of the trace,
the same with each storage rounded up to 512 B, and the peaks of the course's own caching allocator;
and from the device, requested, allocated and reserved bytes.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import islice, product

from course_utils.configs import ModelConfig
from course_utils.formulas.recomputation import POLICIES
from course_utils.instruments import (
    MemoryTrace,
    PeakMemory,
    fake_tensors,
    measure_peak,
    trace_memory,
)
from course_utils.reference.allocator import CachingAllocator, rounded_bytes
from course_utils.reference.training import ADAMW
from tests.gpu.setting import TINY, Case, Row, Setting, build, row_or_trouble

NUM_STEPS = 2  # in the second, the optimizer's states are live from the beginning
MODELS = {"GPT-2-124M": (8, (512, 1024)), "Llama-3.2-1B": (1, (1024, 4096))}
PRECISIONS = ("fp32", "bf16")


def cases() -> Iterator[Case]:
    """24 cases; attention is not fused in fp32: fused kernels with shared heads need 16 bits.

    The kind of AdamW rotates, so that each meets each policy in each precision.
    """
    choices = product(MODELS.items(), PRECISIONS, POLICIES, (0, 1))
    for number, ((name, (batch, lengths)), precision, policy, i) in enumerate(choices):
        yield Case(
            model_name=name,
            seq_len=lengths[i],
            policy=policy,
            precision=precision,
            adamw=ADAMW[(number + number // 6) % len(ADAMW)],
            is_attention_fused=precision == "bf16",
            micro_batch_size=batch,
        )


def tiny_cases() -> Iterator[Case]:
    """A few of them with toy lengths; the models are toys already."""
    for case in islice(cases(), 0, None, 5):
        yield replace(case, seq_len=case.seq_len // 64, micro_batch_size=1)


def measure(setting: Setting) -> Iterator[Row]:
    """A row for each case, with predicted and measured bytes."""
    for case in tiny_cases() if setting.is_tiny else cases():
        yield asdict(case) | row_or_trouble(partial(compare, case, setting))


def compare(case: Case, setting: Setting) -> Row:
    """Predicted and measured bytes of one case."""
    model = setting.model(case.model_name)
    trace = trace_on_fake_tensors(case, model)
    train(replace(case, seq_len=64), TINY, setting.device)  # allocates cuBLAS's workspace
    peak = measure_peak(lambda: train(case, model, setting.device))
    if peak is None:
        train(case, model, setting.device)
    return predicted_row(trace) | measured_row(peak, trace)


def train(case: Case, model: ModelConfig, device: str) -> None:
    """Build everything on the device and train: what is built counts too."""
    training = build(case, model, device)
    for _ in range(NUM_STEPS):
        training.step()


def trace_on_fake_tensors(case: Case, model: ModelConfig) -> MemoryTrace:
    """Trace of the same training on fake tensors; the batch counts, as it does on a device."""
    with fake_tensors():
        training = build(case, model, "cpu")
        owners = (*training.owners, training.ids, training.targets)
        return trace_memory(training.step, *owners, num_steps=NUM_STEPS)


def predicted_row(trace: MemoryTrace) -> Row:
    """Peak bytes of the trace, with rounded storages, and in a caching allocator."""
    levels = CachingAllocator().play_script(trace.script())
    return {
        "traced_bytes": trace.peak_bytes,
        "rounded_bytes": with_rounded_storages(trace).peak_bytes,
        "simulated_allocated_bytes": max(each.allocated_bytes for each in levels),
        "simulated_reserved_bytes": max(each.reserved_bytes for each in levels),
        "peak_phase": trace.peak_phase.name,
        "live_at_peak": trace.live_at(trace.peak_at),
    }


def with_rounded_storages(trace: MemoryTrace) -> MemoryTrace:
    """The trace with each storage rounded up to the block that serves it."""
    storages = (
        each._replace(storage_bytes=each.storage_bytes and rounded_bytes(each.storage_bytes))
        for each in trace.storages
    )
    return replace(trace, storages=tuple(storages))


def measured_row(peak: PeakMemory | None, trace: MemoryTrace) -> Row:
    """Peaks of the device, and the ratio of predicted to measured bytes."""
    if peak is None:
        return {"measured": None}
    row: Row = {"measured": asdict(peak) | {"fits": peak.fits}}
    if peak.fits:
        row["traced_by_requested"] = trace.peak_bytes / peak.requested_bytes
        row["rounded_by_allocated"] = with_rounded_storages(trace).peak_bytes / peak.allocated_bytes
    return row
