"""One reader: a GPU's trace made by hand, a real one of a CPU, tables, and files for Perfetto."""

import gzip
import json

import pytest
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity
from torch.profiler import profile as torch_profile

from course_utils.instruments import named_range, profile
from course_utils.records.traces import recorded_trace, trace_names
from course_utils.traces import (
    busy_seconds,
    communicating,
    computing,
    exposed_seconds,
    made,
    outermost,
    queue_seconds,
    read_trace,
    select,
    write_perfetto,
    write_table,
)


def entry(cat, name, ts, dur, tid=1, **args):
    names = {key.replace("_", " ") if key[0].isupper() else key: v for key, v in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid, "args": names}


def cuda_trace(rank=0, base_ns=7_000_000):
    """As the profiler writes a step on a GPU: launches on two threads, kernels on two streams."""
    nccl = {"In_msg_nelems": 1024, "Out_msg_nelems": 1024, "dtype": "BFloat16"}
    return {
        "baseTimeNanoseconds": base_ns,
        "distributedInfo": {"rank": rank, "world_size": 2},
        "traceEvents": [
            {"ph": "M", "name": "process_name", "args": {"name": "python"}},
            entry("Trace", "PyTorch Profiler (0)", 0, 900),
            entry("python_function", "step.py(3): step", 100, 300),
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "ts": 112.0, "tid": 1},
            entry("user_annotation", "ProfilerStep#3", 100, 300),
            entry("user_annotation", "forward", 105, 60),
            entry("cpu_op", "aten::mm", 110, 10.5, External_id=1),
            entry("cuda_runtime", "cudaLaunchKernel", 112.125, 5, correlation=11),
            entry("kernel", "sm90_xmma_gemm", 150.25, 40, 7, stream=7, device=0, correlation=11),
            entry("user_annotation", "nccl:all_reduce", 180, 9, tid=2),
            entry("cuda_driver", "cuLaunchKernelEx", 182, 3, tid=2, correlation=12),
            entry("kernel", "ncclDevKernel_AllReduce_Sum", 185, 20, 9, stream=9, correlation=12)
            | {
                "args": {"stream": 9, "correlation": 12, "In msg nelems": 1024}
                | {k.replace("_", " "): v for k, v in nccl.items() if k != "dtype"}
                | {"dtype": "BFloat16"}
            },
            entry("cuda_runtime", "cudaMemcpyAsync", 300, 4, correlation=13),
            entry("gpu_memcpy", "Memcpy DtoH", 306, 2, 7, stream=7, correlation=13, bytes=4),
            entry("cuda_runtime", "cudaStreamSynchronize", 304, 8, correlation=14),
            entry("cuda_runtime", "cudaEventRecord", 320, 1, correlation=15),
            entry("gpu_user_annotation", "forward", 150.25, 40, 7, stream=7),
        ],
    }


def test_a_trace_of_a_gpu():
    events = {each["name"]: each for each in read_trace(cuda_trace())}
    kinds = {name: (each["lane"], each["kind"]) for name, each in events.items()}
    assert kinds == {
        "ProfilerStep#3": ("cpu", "range"),
        "forward": ("gpu", "range"),  # as the profiler projects it; the CPU's comes first
        "aten::mm": ("cpu", "cpu_op"),
        "cudaLaunchKernel": ("cpu", "launch"),
        "sm90_xmma_gemm": ("gpu:7", "kernel"),
        "nccl:all_reduce": ("cpu:1", "range"),
        "cuLaunchKernelEx": ("cpu:1", "launch"),
        "ncclDevKernel_AllReduce_Sum": ("gpu:9", "communication"),
        "cudaMemcpyAsync": ("cpu", "launch"),
        "Memcpy DtoH": ("gpu:7", "memcpy"),
        "cudaStreamSynchronize": ("cpu", "sync"),
        "cudaEventRecord": ("cpu", "runtime"),
    }
    gemm, nccl = events["sm90_xmma_gemm"], events["ncclDevKernel_AllReduce_Sum"]
    assert (gemm["start_ns"], gemm["end_ns"], gemm["launch_ns"]) == (50_250, 90_250, 12_125)
    assert (gemm["phase"], nccl["phase"]) == ("forward", "ProfilerStep#3")  # open at the launch
    assert (nccl["bytes"], events["Memcpy DtoH"]["bytes"], gemm["bytes"]) == (2048, 4, 0)
    assert queue_seconds(nccl) == 3e-6
    assert exposed_seconds(events.values()) == (205_000 - 190_250) / 1e9
    assert busy_seconds(computing(events.values())) == 40e-6


def test_ranks_of_a_host_get_one_clock():
    """The second began its trace 5 microseconds later."""
    events = read_trace(cuda_trace(rank=3), cuda_trace(rank=1, base_ns=7_005_000))
    starts = {e["rank"]: e["start_ns"] for e in select(events, name="sm90*")}
    assert starts == {3: 50_250, 1: 55_250}
    launches = {e["rank"]: e["launch_ns"] for e in select(events, name="sm90*")}
    assert launches == {3: 12_125, 1: 17_125}


@pytest.fixture(scope="module")
def profiled():
    """One rank that reduces beside a product; gloo's thread works while Python goes on."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    x, gradient = torch.ones(300, 300), torch.ones(10**6, dtype=torch.float64)

    def call():
        work = dist.all_reduce(gradient, async_op=True)
        with named_range("products"):
            for _ in range(5):
                x @ x
        work.wait()

    try:
        yield profile(call), call
    finally:
        dist.destroy_process_group()


def test_a_real_trace_of_a_cpu(profiled, tmp_path):
    found, _ = profiled
    events = read_trace(found.trace)
    assert events[0]["start_ns"] == 0
    products = select(events, name="aten::mm")
    assert [(e["kind"], e["lane"], e["phase"]) for e in products] == 5 * [
        ("cpu_op", "cpu", "products")
    ]
    assert not {e["name"] for e in outermost(select(events, kind="cpu_op"))} & {"aten::mm"}
    [reduced] = communicating(events)
    assert reduced["name"] == "gloo:all_reduce"
    assert reduced["lane"] != "cpu"
    assert 0 <= exposed_seconds(events) <= busy_seconds([reduced])
    found.write_trace(tmp_path / "trace.json")
    assert read_trace(tmp_path / "trace.json") == events
    packed = gzip.compress((tmp_path / "trace.json").read_bytes())
    (tmp_path / "trace.json.gz").write_bytes(packed)
    assert read_trace(str(tmp_path / "trace.json.gz")) == events


def test_a_profiler_that_has_stopped(profiled):
    with torch_profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        profiled[1]()
    events = read_trace(profiler)
    assert len(select(events, name="aten::mm")) == 5
    assert [each["bytes"] for each in communicating(events)] == [8 * 10**6]


@pytest.mark.parametrize("name", trace_names())
def test_perfetto_and_tables_give_the_same_events_back(name, tmp_path):
    events = recorded_trace(name)
    path = tmp_path / "trace.json"
    write_perfetto(events, path)
    assert read_trace(path) == events
    trace = json.loads(path.read_text(encoding="utf-8"))
    complete = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    for event, written in zip(events, complete, strict=True):
        assert (written["ts"], written["pid"]) == (event["start_ns"] / 1000, event["rank"])
        assert written["dur"] == (event["end_ns"] - event["start_ns"]) / 1000
    names = {(e["pid"], e["name"]): e["args"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {names[rank, "process_name"]["name"] for rank in {e["rank"] for e in events}} == {
        f"rank {rank}" for rank in {e["rank"] for e in events}
    }
    threads = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert threads == {each["lane"] for each in events}
    write_table(events, tmp_path / "trace.csv", ["what ran", "source: here"])
    assert read_trace(tmp_path / "trace.csv") == events


def test_lanes_in_perfetto_stand_in_order(tmp_path):
    lanes = ["gpu:23", "cpu:1", "gpu:7", "cpu", "gpu:compute", "gpu"]
    write_perfetto([made(lane=each, end_ns=1) for each in lanes], tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    names = {
        e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"
    }
    assert [names[tid] for tid in sorted(names)] == [
        "cpu", "cpu:1", "gpu", "gpu:compute", "gpu:7", "gpu:23"
    ]  # fmt: skip


def test_what_is_no_trace_is_told(tmp_path):
    with pytest.raises(ValueError, match="wants a trace with the entry 'traceEvents'"):
        read_trace({"events": []})
    with pytest.raises(ValueError, match="found no kernel and no operator"):
        read_trace({"traceEvents": []})
    path = tmp_path / "list.json"
    path.write_text(json.dumps([1]), encoding="utf-8")
    with pytest.raises(ValueError, match="wants a trace"):
        read_trace(path)
