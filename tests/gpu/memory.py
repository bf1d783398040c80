"""Does a trace on fake tensors foretell the peak of a real device?

Each configuration is traced without memory and run for two steps. Beside the bytes of the trace
stand the same with each storage rounded up to 512 B, and what the course's own caching allocator
makes of the requests; beside the device's allocated bytes, those that were asked for.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace
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
from tests.gpu.setting import TINY, Case, Row, Setting, build, surviving

NUM_STEPS = 2  # the second has the optimizer's states from the beginning
MODELS = {"GPT-2-124M": (8, (512, 1024)), "Llama-3.2-1B": (1, (1024, 4096))}
PRECISIONS = ("fp32", "bf16")


def cases() -> Iterator[Case]:
    """24 ways. In fp32 attention is written out: fused kernels that share heads take 16 bits only.

    The kind of AdamW goes round, so that each occurs with each policy in each precision.
    """
    ways = product(MODELS.items(), PRECISIONS, POLICIES, (0, 1))
    for number, ((name, (batch, lengths)), precision, policy, length) in enumerate(ways):
        yield Case(
            model_name=name,
            seq_len=lengths[length],
            policy=policy,
            precision=precision,
            adamw=ADAMW[(number + number // 6) % len(ADAMW)],
            is_attention_fused=precision == "bf16",
            micro_batch_size=batch,
        )


def tiny_cases() -> Iterator[Case]:
    """A few of them with toy lengths; sizes of models are toys already."""
    for case in islice(cases(), 0, None, 5):
        yield replace(case, seq_len=case.seq_len // 64, micro_batch_size=1)


def measure(where: Setting) -> Iterator[Row]:
    """A row for each case, with what is foretold and what is measured."""
    for case in tiny_cases() if where.is_tiny else cases():
        yield asdict(case) | surviving(lambda c=case: compare(c, where))


def compare(case: Case, where: Setting) -> Row:
    """Both numbers of one case; what cuBLAS takes for itself is there before."""
    model = where.model(case.model_name)
    trace = foretell(case, model)
    run(replace(case, seq_len=64), TINY, where.device)
    peak = measure_peak(lambda: run(case, model, where.device))
    if peak is None:
        run(case, model, where.device)
    return foretold(trace) | measured(peak, trace)


def run(case: Case, model: ModelConfig, device: str) -> None:
    """Build all on the device and train: what is built counts too."""
    training = build(case, model, device)
    for _ in range(NUM_STEPS):
        training.step()


def foretell(case: Case, model: ModelConfig) -> MemoryTrace:
    """The same on fake tensors; the batch counts as it does on a device."""
    with fake_tensors():
        training = build(case, model, "cpu")
        owners = (*training.owners, training.ids, training.targets)
        return trace_memory(training.step, *owners, num_steps=NUM_STEPS)


def foretold(trace: MemoryTrace) -> Row:
    """Bytes of the trace, rounded up one by one, and as a caching allocator has them."""
    levels = CachingAllocator().play(trace.requests())
    return {
        "traced_bytes": trace.peak_bytes,
        "rounded_bytes": rounded(trace).peak_bytes,
        "simulated_allocated_bytes": max(each.allocated_bytes for each in levels),
        "simulated_reserved_bytes": max(each.reserved_bytes for each in levels),
        "peak_phase": trace.peak_phase.name,
        "live_at_peak": trace.live_at(trace.peak_at),
    }


def rounded(trace: MemoryTrace) -> MemoryTrace:
    """The trace with each storage as large as the block that serves it."""
    storages = (
        each._replace(storage_bytes=each.storage_bytes and rounded_bytes(each.storage_bytes))
        for each in trace.storages
    )
    return replace(trace, storages=tuple(storages))


def measured(peak: PeakMemory | None, trace: MemoryTrace) -> Row:
    """Peaks of the device, and by which factor the trace misses them."""
    if peak is None:
        return {"measured": None}
    row: Row = {"measured": asdict(peak) | {"fits": peak.fits}}
    if peak.fits:
        row["traced_by_requested"] = trace.peak_bytes / peak.requested_bytes
        row["rounded_by_allocated"] = rounded(trace).peak_bytes / peak.allocated_bytes
    return row
