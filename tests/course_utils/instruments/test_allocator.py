"""An allocator's history becomes a trace: by hand, from a real step, and on a simulated GPU."""

import pickle
import weakref

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_utils.configs import RunConfig, precision
from course_utils.instruments import (
    Mark,
    MemoryTrace,
    PhaseStart,
    TracedStorage,
    count_flops,
    fake_tensors,
    read_history,
    trace_allocator,
    trace_memory,
)
from course_utils.instruments import allocator_recording as recording
from course_utils.instruments.memory_trace import CATEGORIES
from course_utils.reference import Training
from course_utils.reference.allocator import rounded_bytes
from course_utils.show.memory_over_time import memory_timeline
from tests.random_models import random_model


def alloc(address, num_bytes, **more):
    return {"action": "alloc", "addr": address, "size": num_bytes, "stream": 0, **more}


def free(address, num_bytes):
    request = {"action": "free_requested", "addr": address, "size": num_bytes, "stream": 0}
    return [request, request | {"action": "free_completed"}]


def snapshot_of(*events, in_use=(), device=0):
    """A snapshot in PyTorch's format; ``in_use`` holds the blocks in use at the end."""
    flat = [each for event in events for each in (event if isinstance(event, list) else [event])]
    blocks = [
        {
            "address": address,
            "size": rounded_bytes(num_bytes),
            "requested_size": num_bytes,
            "state": "active_allocated",
        }
        for address, num_bytes in in_use
    ]
    blocks.append({"address": 2**30, "size": 512, "requested_size": 0, "state": "inactive"})
    segment = {"device": device, "address": 0, "total_size": 2**21, "blocks": blocks}
    others = [[] for _ in range(device)]
    return {"device_traces": [*others, flat], "segments": [segment]}


# Two steps by hand; an event is an allocation or a free.
#
#   event   allocation  live beside w, 100
#   1       1           20             x, kept for the backward pass: an activation
#   2       2           20 + 30        y, freed in the forward pass: temporary
#   3                   20
#   4       3           20 + 40        z: an activation; here, after four events, backward begins
#   5       4           20 + 40 + 100  the gradient of w: marked after five events
#   6                   20 + 100       z is freed
#   7                   100            x is freed
#   8                   0              the gradient is freed, before the next step
#   9       5           20             x of the next step, at the gradient's address
BY_HAND = snapshot_of(
    {"action": "segment_alloc", "addr": 0, "size": 2**21, "stream": 0},
    alloc(1024, 20),
    alloc(2048, 30),
    free(2048, 30),
    alloc(2048, 40),
    alloc(3072, 100),
    free(2048, 40),
    free(1024, 20),
    free(3072, 100),
    alloc(3072, 20),
    in_use=[(512, 100), (3072, 20)],
)
MARKS = [Mark(0, 512, "parameters"), Mark(5, 3072, "gradients")]
PHASES = [PhaseStart(0, 1, "forward"), PhaseStart(4, 1, "backward"), PhaseStart(8, 2, "forward")]


def test_two_steps_by_hand():
    trace = read_history(BY_HAND, MARKS, PHASES)
    assert trace.total_bytes == [100 + live for live in (0, 20, 50, 60, 160, 20)]
    lives = [(s.category, s.storage_bytes, s.born, s.died) for s in trace.storages]
    assert lives == [
        ("parameters", 100, 0, None),
        ("activations", 20, 1, 5),
        ("temporaries", 30, 2, 3),
        ("activations", 40, 3, 5),
        ("gradients", 100, 4, 5),
        ("temporaries", 20, 5, None),
    ]
    assert (trace.peak_at, trace.peak_phase.name, trace.peak_phase.step) == (4, "backward", 1)
    assert trace.phases == (
        (1, "forward", 1, 4, 160),
        (1, "backward", 4, 5, 100),
        (2, "forward", 5, 6, 120),
    )
    assert "Peak of 260 B in the backward pass of step 1" in memory_timeline(trace).caption


def test_without_marks_everything_is_one_forward_pass():
    trace = read_history(BY_HAND)
    assert {each.category for each in trace.storages} == {"temporaries"}
    assert [phase.name for phase in trace.phases] == ["forward"]
    assert trace.peak_bytes == 260


def test_a_block_freed_but_never_allocated_is_older_than_the_history():
    trace = read_history(snapshot_of(alloc(512, 7), free(1024, 5), alloc(1024, 6)))
    assert trace.total_bytes == [5, 12, 13]
    assert trace.storages[0].operation == ""


def test_a_storage_is_made_by_the_first_function_outside_torch():
    frames = [
        {"filename": "/site-packages/torch/nn/functional.py", "line": 1, "name": "linear"},
        {"filename": "??", "line": 0, "name": "at::mm"},
        {"filename": "/course_utils/reference/fused.py", "line": 2, "name": "gated"},
    ]
    trace = read_history(snapshot_of(alloc(512, 7, frames=frames), alloc(1024, 7)))
    assert [each.operation for each in trace.storages] == ["gated", "alloc"]


def test_a_block_with_two_marks_is_a_parameter_first():
    marks = [Mark(1, 512, name) for name in ("gradients", "parameters", "optimizer_states")]
    trace = read_history(snapshot_of(alloc(512, 7)), marks)
    assert trace.storages[0].category == "parameters"


def test_each_gpu_has_its_own_history():
    snapshot = snapshot_of(alloc(512, 7), in_use=[(512, 7), (1024, 3)], device=1)
    assert read_history(snapshot, device=1).total_bytes == [3, 10]
    with pytest.raises(ValueError, match="has no allocation: the step must make tensors on"):
        read_history(snapshot, device=0)
    with pytest.raises(ValueError, match="no history of GPU 2: record one first"):
        read_history(snapshot, device=2)


def training(name: str = "fp32") -> Training:
    run = RunConfig(micro_batch_size=2, seq_len=8, precision=precision(name))
    return Training(random_model("tied", 1), run)


def history_of(trace: MemoryTrace):
    """The history that an allocator would record of a trace, reusing addresses, and its marks.

    In one operation, frees come before allocations; phases begin as in the trace.
    """
    events, marks, addresses, free_addresses = [], [], {}, []
    starts = {phase.start: phase for phase in trace.phases}
    phases = []
    for now in range(trace.num_operations + 2):
        if now in starts:
            phases.append(PhaseStart(len(events), starts[now].step, starts[now].name))
        for number, each in enumerate(trace.storages):
            if each.died == now:
                free_addresses.append(addresses.pop(number))
                events.append(free(free_addresses[-1], each.storage_bytes))
        for number, each in enumerate(trace.storages):
            if each.born == now:
                unused = 512 * (len(addresses) + 1)
                addresses[number] = free_addresses.pop() if free_addresses else unused
                if now:
                    events.append(alloc(addresses[number], each.storage_bytes))
                if each.category in ("parameters", "optimizer_states", "gradients"):
                    marks.append(Mark(len(events), addresses[number], each.category))
    in_use = [(addresses[number], trace.storages[number].storage_bytes) for number in addresses]
    return snapshot_of(*events, in_use=in_use), marks, phases


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_the_history_of_a_real_step_is_its_trace(name):
    """Two steps of AdamW, turned into events and back: the same live bytes in each category."""
    work = training(name)
    trace = trace_memory(work.step, *work.owners, num_steps=2)
    snapshot, marks, phases = history_of(trace)
    read = read_history(snapshot, marks, phases)
    assert read.peak_bytes == trace.peak_bytes
    assert read.peak_phase[:2] == trace.peak_phase[:2]
    births = [each.born for each in trace.storages if each.born]
    assert read.num_operations == len(births)
    last_of = {born: number for number, born in enumerate(births, start=1)}
    for born, number in last_of.items():
        assert read.live_at(number) == trace.live_at(born)
    assert [phase[:2] for phase in read.phases] == [phase[:2] for phase in trace.phases]
    memory_timeline(read)


class SimulatedGPU(TorchDispatchMode):
    """Records allocations and frees of CPU tensors as a GPU's allocator records its blocks."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.events, self.live, self.calls = [], {}, []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", self.stats)
        monkeypatch.setattr(torch.cuda.memory, "_snapshot", self.snapshot)
        monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", self.record)

    def record(self, **settings):
        self.calls.append(settings)
        self.events.clear()

    def stats(self, device):
        actions = [event["action"] for event in self.events]
        counts = {"allocated": actions.count("alloc"), "freed": actions.count("free_requested")}
        return {"allocation": {"all": counts}}

    def snapshot(self):
        in_use = [(address, size) for address, (size, _) in self.live.items()]
        return snapshot_of(*self.events, in_use=in_use)

    def track(self, tensor, is_new=True):
        if isinstance(tensor, FakeTensor):  # has no block
            return
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if address and address not in self.live:
            ref = weakref.ref(storage, lambda _: self.release(address, size))
            self.live[address] = (size, ref)
            if is_new:
                self.events.append(alloc(address, size))

    def release(self, address, size):
        del self.live[address]
        self.events.extend(free(address, size)[:1])

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, torch.Tensor):
                self.track(tensor, is_new=False)
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.track(tensor)
        return result


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_on_a_simulated_gpu_the_trace_is_that_of_operations(monkeypatch, tmp_path, name):
    """The recorder sees only addresses, but phases and categories are those of trace_memory."""
    work = training(name)
    expected = trace_memory(work.step, *work.owners, num_steps=2)
    work = training(name)
    with SimulatedGPU(monkeypatch) as gpu:
        for tensor in (*work.model.parameters(), *work.optimizers[0].param_groups[0]["params"]):
            gpu.track(tensor, is_new=False)
        path = tmp_path / "memory.pickle"
        trace = trace_allocator(work.step, *work.owners, num_steps=2, path=path)
    assert trace.peak_phase[:2] == expected.peak_phase[:2]
    assert [phase[:2] for phase in trace.phases] == [phase[:2] for phase in expected.phases]
    batch = work.ids.nbytes + work.targets.nbytes  # live, but in no owner
    assert trace.peak_bytes == expected.peak_bytes + batch
    peak, expected_peak = trace.live_at(trace.peak_at), expected.live_at(expected.peak_at)
    assert {each: peak[each] - expected_peak[each] for each in CATEGORIES} == {
        **dict.fromkeys(CATEGORIES, 0),
        "temporaries": batch,
    }
    assert gpu.calls[0] == gpu.calls[-1] == {"enabled": None}
    assert set(pickle.loads(path.read_bytes())) == {"device_traces", "segments"}
    assert not any(each._post_accumulate_grad_hooks for each in work.model.parameters())


def test_a_step_that_fails_ends_the_recording(monkeypatch):
    with SimulatedGPU(monkeypatch) as gpu, pytest.raises(KeyError):
        trace_allocator(lambda: {}["a student's error"])
    assert gpu.calls[-1] == {"enabled": None}


def test_a_history_that_is_too_long_is_rejected(monkeypatch):
    monkeypatch.setattr(recording, "MAX_EVENTS", 2)
    with (
        SimulatedGPU(monkeypatch),
        pytest.raises(ValueError, match="did more than 2 things, and the first of them are lost"),
    ):
        trace_allocator(lambda: [torch.ones(3) for _ in range(3)])


def test_without_a_gpu_the_trace_is_that_of_operations(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    work = training()
    path = tmp_path / "memory.pickle"
    trace = trace_allocator(work.step, *work.owners, path=path)
    printed = capsys.readouterr().out
    assert printed.startswith("There is no GPU here, so there is no allocator history")
    assert printed.count("\n") == 1
    assert not path.exists()
    work = training()
    assert trace == trace_memory(work.step, *work.owners)
    assert isinstance(trace.storages[0], TracedStorage)


def test_wrong_arguments_are_rejected(monkeypatch):
    with pytest.raises(TypeError, match="trace_allocator wants a function that takes nothing"):
        trace_allocator(torch.ones(1))
    with pytest.raises(ValueError, match="trace_memory cannot run inside count_flops"):
        count_flops(lambda: trace_allocator(lambda: None))
    with SimulatedGPU(monkeypatch):
        with pytest.raises(TypeError, match="must be a module, optimizer or tensor, got <class"):
            trace_allocator(lambda: None, [nn.Linear(3, 5)])
        with pytest.raises(ValueError, match="num_steps must be above zero, got 0"):
            trace_allocator(lambda: None, num_steps=0)
    with SimulatedGPU(monkeypatch), pytest.raises(ValueError, match="has no allocation"):
        trace_allocator(lambda: None)
    with fake_tensors(), pytest.raises(ValueError, match="trace_allocator measures real work"):
        trace_allocator(lambda: None)
