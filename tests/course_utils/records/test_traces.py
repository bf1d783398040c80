"""Recorded traces and rates: where they come from, and their facts computed again."""

import math
import re
from collections.abc import Callable
from statistics import mean, median

import pytest

from course_utils.records.traces import (
    FOLDER,
    about,
    recorded_memory,
    recorded_rows,
    recorded_trace,
    records,
    trace_names,
)
from course_utils.traces import (
    GPU_WORK,
    KINDS,
    Event,
    bus_bytes_per_second,
    busy_seconds,
    by_rank,
    communicating,
    exposed_seconds,
    last_rank,
    matched,
    queue_seconds,
    seconds_of,
    select,
    span_seconds,
    transfer_seconds,
    waiting_seconds,
)

GIB, MIB = 2**30, 2**20
# Parts of the names of matrix products.
GEMMS = ("nvjet*", "*sm90_xmma*", "cutlass_*", "*gemm*", "Cijk*")
WITHOUT_LICENCE = {"deepseek_v3_sums", "llama8b_oom_numbers"}
NAMES = [record["name"] for record in records()]


@pytest.mark.parametrize("name", NAMES)
def test_every_record_says_what_it_is_and_where_it_comes_from(name):
    said = about(name)
    assert all(said[each] for each in ("what", "source", "licence", "units", "cut"))
    is_ours = name == "cpu2_ddp_step"
    assert ("recorded by the course" if is_ours else "github.com/") in said["source"]
    assert is_ours or re.search(r"\b[0-9a-f]{40}\b", said["source"])
    assert said["licence"].startswith("none") == (name in WITHOUT_LICENCE)


def test_of_sources_without_licence_there_are_a_few_numbers():
    for name in WITHOUT_LICENCE:
        assert name not in trace_names()
        assert len(recorded_rows(name)) < 30


def test_all_records_together_are_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 2.1e6  # bytes


@pytest.mark.parametrize("name", trace_names())
def test_events_are_whole(name):
    events = recorded_trace(name)
    for event in events:
        assert event["kind"] in KINDS
        assert event["end_ns"] >= event["start_ns"] and event["bytes"] >= 0
        launch_ns = event["launch_ns"]
        assert launch_ns is None or launch_ns <= event["start_ns"]
    events[0]["name"] = "changed"
    assert recorded_trace(name)[0]["name"] != "changed"


def test_numbers_of_tables_are_in_si_units():
    [row] = [
        row
        for row in recorded_rows("attention_prefill_rates")
        if (row["device"], row["head_dim"], row["batch"], row["seq"], row["kv_heads"])
        == ("A100-SXM4-80GB", 128, 1, 128, 8)
    ]
    assert (row["latency_seconds"], row["flops_per_second"]) == (12.87 / 10**6, 10.42 * 10**12)
    assert "latency_us" not in row
    [first, *_] = recorded_rows("fsdp_ddp_a100x2")
    assert (first["step_seconds"], first["peak_bytes"]) == (1.4632, 52.12 * GIB)
    assert first["comm_seconds"] is None
    assert recorded_rows("mlperf_training")[0]["seconds"] == pytest.approx(29.491 * 60)
    for name in set(NAMES) - set(trace_names()):
        for column in recorded_rows(name)[0]:
            assert not column.endswith(("_us", "_ms", "_gib", "_mib", "tflops", "_gb_s"))


def test_what_is_not_there_is_told():
    with pytest.raises(ValueError, match="there is no trace 'gemm_rates', but a100_gpt_small"):
        recorded_trace("gemm_rates")
    with pytest.raises(ValueError, match="there is no record 'nothing'"):
        recorded_rows("nothing")
    with pytest.raises(ValueError, match="there is no run 'fp8', but 'fp32'"):
        list(recorded_memory("fp8"))


def ms(seconds: float) -> float:
    return 1e3 * seconds


def sum_ms(events: list[Event]) -> float:
    return ms(math.fsum(map(seconds_of, events)))


def gemm_ms(events: list[Event]) -> float:
    return sum_ms(select(events, kind="kernel", name=GEMMS))


def attention_ms(events: list[Event]) -> float:
    names = ("*flash*", "*Flash*", "*Fmha*", "paged_attention*")
    return sum_ms(select(events, kind="kernel", name=names))


def busy_ms(events: list[Event]) -> float:
    return ms(busy_seconds(events))


def on_gpu(events: list[Event]) -> list[Event]:
    return select(events, kind=GPU_WORK)


def communication_ms(events: list[Event]) -> float:
    return busy_ms(communicating(events))


def exposed_ms(events: list[Event]) -> float:
    return ms(exposed_seconds(events))


def span_ms(events: list[Event]) -> float:
    return ms(span_seconds(events))


def on_each_rank(measure: Callable[[list[Event]], float], name: str) -> list[float]:
    return [measure(each) for each in by_rank(recorded_trace(name)).values()]


def near(*expected: float, places: int = 2) -> object:
    """As the description of the record prints them."""
    return pytest.approx(list(expected), abs=0.5001 * 10**-places)


@pytest.mark.parametrize(
    ("name", "step", "communication", "exposed"),
    [("h100x8_nanogpt_before", 62.4, 5.85, 4.38), ("h100x8_nanogpt_after", 61.5, 5.26, 3.34)],
)
def test_nanogpt_before_and_after(name, step, communication, exposed):
    events = recorded_trace(name)
    assert [span_ms(on_gpu(events))] == near(step, places=1)
    assert [communication_ms(events), exposed_ms(events)] == near(communication, exposed)


def test_nanogpt_is_bound_by_its_gpu():
    events = recorded_trace("h100x8_nanogpt_before")
    step = span_ms(on_gpu(events))
    shares = [round(100 * each(events) / step) for each in (gemm_ms, attention_ms)]
    assert shares == [43, 9]
    launches = [queue_seconds(each) for each in on_gpu(events)]
    assert [ms(min(launches)), ms(median(launches))] == near(57, 66, places=0)
    gathers = select(communicating(events), name="*AllGather*")
    large = [each for each in gathers if each["bytes"] > 150e6]
    rates = [bus_bytes_per_second(each, 8) / 1e9 for each in large]
    assert len(large) == 2 and rates == near(277, 278, places=0)


def test_nanogpt_on_eight_ranks_has_one_straggler():
    name = "h100x8_nanogpt_8ranks"
    spent = on_each_rank(communication_ms, name)
    assert [spent[1], min(spent[3:]), max(spent[3:])] == near(4.76, 18.15, 18.41)
    collectives = matched(recorded_trace(name))
    assert len(collectives) == 20
    ends = [[event["end_ns"] for event in each] for each in collectives]
    apart = [max(each) - min(each) for each in ends]  # as the header says
    assert [min(apart), median(apart), max(apart)] == near(1520, 18_940, 156_400, places=-2)
    waited = [c for c in collectives if max(waiting_seconds(c).values()) > 150e-6]
    assert [last_rank(each) for each in waited] == [1] * 5
    waiting = [mean(waiting_seconds(each).values()) for each in waited]
    assert [ms(math.fsum(waiting))] == near(11.1, places=1)
    assert [ms(math.fsum(map(transfer_seconds, collectives)))] == near(4.54)


def test_a_step_in_plain_python_waits_for_its_launches():
    events = recorded_trace("a100_gpt_small_step_fp32")
    assert [busy_ms(events), span_ms(events)] == near(148.4, 234.7, places=1)
    assert "without the profiler at 152.6 ms" in about("a100_gpt_small_step_fp32")["software"]
    optimizer = select(events, phase="optimizer")
    assert len(optimizer) == 1776
    launches = [each["launch_ns"] for each in optimizer]
    assert [busy_ms(optimizer)] == near(11.8, places=1)
    assert [(max(launches) - min(launches)) / 1e6] == near(59, places=0)


def test_a_forward_pass_of_half_a_billion():
    events = recorded_trace("h100_qwen05b_forward")
    assert [busy_ms(events), span_ms(events)] == near(31.9, 34.9, places=1)
    assert [gemm_ms(events), sum_ms(select(events, phase="*RMSNorm"))] == near(8.86, 7.38)
    allocated = [row["allocated_bytes"] / MIB for row in recorded_rows("h100_qwen05b_memory")]
    assert [allocated[0], max(allocated)] == near(957, 1992, places=0)


def test_a_forward_pass_of_four_layers():
    events = recorded_trace("h100_bert_small_forward")
    gpu, kernels = on_gpu(events), select(events, kind="kernel")
    assert [busy_ms(gpu), span_ms(gpu)] == near(0.31, 3.91)
    assert len(kernels) == 60
    assert [1e6 * mean(map(seconds_of, kernels))] == near(5, places=0)


@pytest.mark.parametrize(("workers", "loader", "step"), [(0, 88.4, 149), (4, 2.8, 122)])
def test_workers_load_beside_the_steps(workers, loader, step):
    events = select(recorded_trace("v100_resnet50_dataloader"), phase=f"workers={workers}")
    assert [sum_ms(select(events, name="DataLoader*"))] == near(loader, places=1)
    steps = select(events, name="ProfilerStep*")
    assert [sum_ms(steps[:1])] == near(step, places=0)
    assert 100 < busy_ms(on_gpu(events)) / len(steps) < 104


def test_an_all_reduce_for_every_parameter():
    name = "rtx3090x2_ddp_overlap"
    assert on_each_rank(communication_ms, name) == near(32.8, 28.8, places=1)
    assert on_each_rank(exposed_ms, name) == near(20.9, 16.6, places=1)
    backward = select(recorded_trace(name), rank=0, name="backward pass")
    assert [sum_ms(backward)] == near(209.5, places=1)
    for rank, (took, rate) in enumerate([(1.8, 8.6), (1.6, 9.6)]):
        tail = communicating(select(recorded_trace(name), rank=rank))[-1]
        assert tail["phase"] == "backward token_embeddings.weight"
        assert [ms(seconds_of(tail)), tail["bytes"] / seconds_of(tail) / 1e9] == near(
            took, rate, places=1
        )


def test_buckets_of_ddp():
    events = recorded_trace("a100x2_resnet50_ddp_buckets")
    reduced = select(communicating(events), name="*AllReduce*")
    sizes = [each["bytes"] / 1e6 for each in reduced]
    assert sizes == near(8.2, 31.5, 26.3, 26.6, 9.7, places=1)
    assert [communication_ms(events), exposed_ms(events)] == near(12.3, 10.5, places=1)
    assert [busy_ms(on_gpu(events))] == near(49.7, places=1)


def test_all_to_alls_on_the_stream_that_computes():
    name = "h100x2_sequence_parallel"
    assert on_each_rank(communication_ms, name) == near(1.70, 0.73)
    assert on_each_rank(exposed_ms, name) == on_each_rank(communication_ms, name)
    assert on_each_rank(attention_ms, name) == near(16.0, 16.0, places=1)
    longest = [ms(max(map(seconds_of, each))) for each in matched(recorded_trace(name))]
    assert [max(longest)] == near(0.753, places=3)


def test_weights_that_live_on_the_cpu():
    name = "h100x2_cpu_offload"
    copies = select(recorded_trace(name), rank=0, kind="memcpy", name="*HtoD*")
    moved = sum(each["bytes"] for each in copies)
    assert [moved / 1e9, moved / busy_seconds(copies) / 1e9] == near(4.03, 27.66)
    kernels = select(recorded_trace(name), rank=0, kind="kernel")
    assert [busy_ms(copies), busy_ms(kernels)] == near(145.6, 4.1, places=1)


def test_a_prefill_on_eight_devices():
    events = recorded_trace("b200x8_vllm_gptoss_prefill")
    gpu, reduced = on_gpu(events), select(events, name="multimem*")
    assert [busy_ms(gpu), span_ms(gpu)] == near(11.6, 84.5, places=1)
    assert communication_ms(events) == exposed_ms(events)
    assert [communication_ms(events)] == near(2.14)
    assert len(reduced) == 73 and {each["bytes"] for each in reduced} == {888 * 2880 * 2}
    usual = median(map(seconds_of, reduced))
    rate = bus_bytes_per_second(reduced[0], 8, seconds=usual)
    assert [1e6 * usual, rate / 1e10] == near(27.4, 32.7, places=1)


def test_prefill_and_decode():
    events = recorded_trace("mi300x_sglang_qwen3_8b")
    prefill, decode = (select(events, phase=each) for each in ("prefill", "decode"))
    assert [span_ms(prefill), 100 * gemm_ms(prefill) / span_ms(prefill)] == near(494, 85, places=0)
    times = [span_ms(decode), gemm_ms(decode), span_ms(decode) - busy_ms(decode)]
    assert times == near(10.45, 5.78, 0.69)
    assert [attention_ms(decode)] == near(2.13)


def test_the_peak_of_a_step_and_who_holds_it():
    _, live = max(recorded_memory("fp32"), key=lambda moment: sum(moment[1].values()))
    activations = [size for name, size in live.items() if name.startswith("forward")]
    assert [sum(live.values()) / GIB, sum(activations) / GIB] == near(65.54, 26.24)
    _, live = max(recorded_memory("bf16 autocast"), key=lambda moment: sum(moment[1].values()))
    assert [sum(live.values()) / GIB, live["optimizer temporaries"] / GIB] == near(63.72, 12.69)


def test_an_out_of_memory():
    sizes = {row["quantity"]: row["bytes"] for row in recorded_rows("llama8b_oom_numbers")}
    assert (
        sizes["requested"] == 4 * 2048 * 128256 * 4 == 4_202_692_608 > sizes["free on the device"]
    )
    assert [sizes["allocated"] / GIB] == near(33.74)
    parts = [size for name, size in sizes.items() if name.startswith("allocated: ")]
    assert sum(parts) == sizes["allocated"] < sizes["reserved"]
    logits = [sizes[f"allocated: {name}"] for name in ("logits in bf16", "loss: logits in fp32")]
    assert [size / GIB for size in logits] == near(1.96, 3.91)
    holes = sizes["reserved"] - sizes["allocated"]
    left = sizes["free on the device"] + holes - sizes["requested"]
    assert left == 671_815_680 < sizes["requested"]  # as much is asked for again in backward


def test_copies_of_logits():
    logits = 1024 * 128_000 * 2 / MIB
    peaks = {
        run: max(row["live_bytes"] for row in rows_of("mem_cross_entropy", run=run)) / MIB
        for run in ("eager", "compile", "liger")
    }
    assert logits == 250
    assert list(peaks.values()) == near(4 * logits, 4 * logits, logits, places=0)
    for run in peaks:
        live = 0
        for row in rows_of("mem_cross_entropy", run=run):
            live += row["bytes"]
            assert live == row["live_bytes"]


def test_chunks_that_hide_each_other_s_all_to_alls():
    rows = recorded_rows("deepseek_v3_sums")
    names = ("quantity", "communication", "computation")
    sums = {tuple(row[name] for name in names): ms(row["seconds"]) for row in rows}

    def of(quantity, communication=None, computation=None):
        return sums[quantity, communication, computation]

    assert [of("communicating"), of("span")] == near(113.4, 129.0, places=1)
    assert [of("exposed"), of("matrix products")] == near(4.19, 75.565)
    phases = {row["communication"] for row in rows} - {None}
    each = [of("communicating", name) for name in phases]
    assert [sum(each)] == near(of("communicating"))  # one stream: they never overlap
    assert [sum(of("exposed", name) for name in phases)] == near(of("exposed"))
    for name in phases:
        hidden = of("communicating", name) - of("exposed", name)
        beside = [
            size for (what, phase, _), size in sums.items() if (what, phase) == ("hidden", name)
        ]
        assert max(beside) <= hidden <= sum(beside) + 0.1  # several phases at once each count
    assert max(sums, key=lambda key: sums[key] * (key[0] == "hidden"))[1:] == (
        "combine(F)",
        "attn(B)",
    )


def rows_of(name: str, **wanted: object) -> list[dict[str, object]]:
    found = [r for r in recorded_rows(name) if all(r[key] == v for key, v in wanted.items())]
    assert found, wanted
    return found


H100, PRO = {"device": "H100 80GB HBM3"}, {"device": "RTX PRO 6000 Blackwell"}
PREFILL = {**H100, "head_dim": 128, "kv_heads": 32}
TRAINING = {"device": "H200", "model": "llama3.1", "seq": 32768, "dtype": "bfloat16"}
EAGER = {**PRO, "dtype": "bf16", "seq": 65536, "head_dim": 64, "pass": "fwd"}
PRODUCT = {**H100, "dtype": "bfloat16", "n": 4096, "k": 4096}
REDUCED = {**H100, "gpus": 8, "op": "all_reduce"}
SCATTERED = {"collective": "reduce_scatter_base"}
# A row of a table, and what the description of the record says of it.
ROWS = [
    ("attention_prefill_rates", {**PREFILL, "batch": 4, "seq": 8192}, "flops_per_second", 555e12),
    ("attention_prefill_rates", {**PREFILL, "batch": 16, "seq": 512}, "flops_per_second", 133e12),
    (
        "attention_decode_rates",
        {**H100, "batch": 64, "context": 4096, "kv_heads": 8},
        "latency_seconds",
        354e-6,
    ),
    (
        "attention_decode_rates",
        {**H100, "batch": 64, "context": 4096, "kv_heads": 8},
        "kv_bytes_per_second",
        3.04e12,
    ),
    (
        "attention_training_rates",
        {**TRAINING, "mask": "top_left", "pass": "fwd"},
        "flops_per_second",
        688e12,
    ),
    (
        "attention_training_rates",
        {**TRAINING, "mask": "top_left", "pass": "bwd"},
        "flops_per_second",
        581e12,
    ),
    ("flash_vs_eager", {**EAGER, "implementation": "PyTorch eager"}, "seconds", 79.3e-3),
    ("flash_vs_eager", {**EAGER, "implementation": "Triton flash"}, "seconds", 3.27e-3),
    ("gemm_rates", {**PRODUCT, "m": 4096}, "flops_per_second", 789e12),
    ("gemm_rates", {**PRODUCT, "m": 1}, "flops_per_second", 2.03e12),
    ("nccl_rates", {**REDUCED, "bytes": 2**29}, "busbw_bytes_per_second", 445e9),
    ("nccl_rates", {**REDUCED, "bytes": 512}, "latency_seconds", 15.5e-6),
    ("fsdp_ddp_a100x2", {"run": "FSDP fp32 prefetch=0"}, "step_seconds", 1618e-3),
    ("fsdp_ddp_a100x2", {"run": "FSDP fp32 prefetch=1"}, "step_seconds", 1546e-3),
    ("fsdp_ddp_a100x2", {"run": "FSDP fp32 prefetch=4"}, "step_seconds", 1524e-3),
    ("fsdp_ddp_a100x2", {"run": "FSDP fp32 prefetch=4"}, "peak_bytes", 33.6 * GIB),
    ("fsdp_ddp_a100x2", {"run": "DDP + AdamW"}, "peak_bytes", 52.1 * GIB),
    (
        "mi300x8_llama70b_fsdp_collectives",
        {**SCATTERED, "rank": 0, "calls": 160},
        "mean_seconds",
        71.8e-3,
    ),
    ("mi300x8_llama70b_transfer", {**SCATTERED, "calls": 160}, "transfer_seconds", 11.7e-3),
    (
        "mlperf_training",
        {"benchmark": "llama31_405b", "gpus": 512, "accelerator": "NVIDIA H100-SXM5-80GB"},
        "step_seconds",
        55.1,
    ),
]


@pytest.mark.parametrize(("name", "wanted", "column", "expected"), ROWS)
def test_a_row_says_what_its_description_says(name, wanted, column, expected):
    [row] = rows_of(name, **wanted)
    assert row[column] == pytest.approx(expected, rel=4e-3)  # three digits


def test_a_product_counts_two_operations_and_a_causal_half_is_counted():
    for row in recorded_rows("gemm_rates"):
        flops = 2 * row["m"] * row["n"] * row["k"]
        assert row["flops_per_second"] == pytest.approx(flops / row["latency_seconds"], rel=1e-3)
    for row in recorded_rows("attention_prefill_rates"):
        flops = 2 * row["batch"] * row["heads"] * row["seq"] ** 2 * row["head_dim"]
        assert row["flops_per_second"] == pytest.approx(flops / row["latency_seconds"], rel=1e-3)


def test_bus_bandwidth_is_that_of_nccl_tests():
    for row in recorded_rows("nccl_rates"):
        n = row["gpus"]
        factor = (2 if row["op"] == "all_reduce" else 1) * (n - 1) / n
        expected = factor * row["bytes"] / row["latency_seconds"]
        assert row["busbw_bytes_per_second"] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("name", ["gemm_rates", "nccl_rates"])
def test_no_row_stands_in_two_files(name):
    rows = [tuple(row.values()) for row in recorded_rows(name)]
    assert len(set(rows)) == len(rows)


def test_layouts_of_mlperf():
    rows = recorded_rows("mlperf_training")
    assert len(rows) == 130 and all(row["tp"] for row in rows)
    [row] = rows_of("mlperf_training", **ROWS[-1][1])
    layout = [row[name] for name in ("tp", "pp", "cp", "global_batch")]
    assert layout == [8, 8, 2, 1152]


def test_kernels_of_an_fsdp_step():
    rows = recorded_rows("fsdp_a100x2_kernels")
    total, nccl = (
        math.fsum(row["total_seconds"] for row in some)
        for some in (rows, rows_of("fsdp_a100x2_kernels", kind="communication"))
    )
    assert [ms(nccl), ms(total)] == near(561.7, 1515.9, places=1)


def test_fused_kernels_save_memory():
    wanted = {"device": "A100-SXM4-80GB", "kernel": "cross_entropy", "x_value": 4096}
    peaks = {
        row["provider"]: row["peak_bytes"] / MIB
        for row in rows_of("fused_kernels", mode="full", **wanted)
        if row["peak_bytes"]
    }
    assert [peaks["liger"], peaks["huggingface"]] == near(256.33, 1280.1)  # logits once, five times
    for row in recorded_rows("fused_kernels"):
        assert (row["seconds"] is None) != (row["peak_bytes"] is None)
