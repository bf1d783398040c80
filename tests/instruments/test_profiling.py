"""What a profile holds of a call whose operators are known, and ranges in it; no line on stderr."""

import json
from types import SimpleNamespace

import pytest
import torch
from torch._C._autograd import DeviceType

from course_utils.instruments import count_flops, fake_tensors, named_range, profile
from course_utils.instruments.profiling import MEMORY, OUTSIDE, _is_operator


def step():
    """Products of 2 * 30**3 FLOPs, one forward and one for the gradient of w."""
    w = torch.ones(30, 30, requires_grad=True)
    (torch.ones(30, 30) @ w).relu().sum().backward()


def row(frame, operator):
    return frame.set_index("operator").loc[operator]


def test_operators_by_hand():
    products = row(profile(step).operators, "aten::mm")
    assert (products.calls, products.flops, products.bytes) == (2, 2 * 2 * 30**3, 2 * 3600)
    assert products.cpu_seconds > 0
    assert products.device_seconds >= 0


def test_memory_by_hand():
    """Each product makes 3,600 bytes; what is freed in a backward node counts there."""
    memory = profile(step).memory
    assert tuple(row(memory, "aten::mm")) == (7200, 0)
    freed = row(memory, "autograd::engine::evaluate_function: ReluBackward0").freed_bytes
    assert freed == 3600
    assert memory.allocated_bytes.sum() == memory.freed_bytes.sum()  # nothing outlives the call
    assert OUTSIDE in set(memory.operator)


def test_counts_repeat():
    first, second = (profile(step) for _ in range(2))
    columns = ["operator", "calls", "flops", "bytes"]
    frames = [each.operators[columns].sort_values("operator") for each in (first, second)]
    assert frames[0].to_dict("list") == frames[1].to_dict("list")
    by_name = [each.memory.sort_values("operator").to_dict("list") for each in (first, second)]
    assert by_name[0] == by_name[1]


def test_the_seconds_of_a_kernel_count_once():
    """PyTorch lists it itself, and beside the operator that launched it."""
    operator = SimpleNamespace(key="aten::mm", device_type=DeviceType.CPU)
    kernel = SimpleNamespace(key="gemm", device_type=DeviceType.CUDA)
    memory = SimpleNamespace(key=MEMORY, device_type=DeviceType.CPU)
    assert [_is_operator(each) for each in (operator, kernel, memory)] == [True, False, False]


def test_the_longest_comes_first():
    seconds = profile(step).operators.cpu_seconds
    assert list(seconds) == sorted(seconds, reverse=True)


def test_warm_up_is_not_looked_at():
    calls = []
    profiled = profile(lambda: calls.append(torch.ones(1)), num_warm_up=3)
    assert len(calls) == 4
    assert row(profiled.operators, "aten::ones").calls == 1


def test_a_trace_is_written_as_often_as_one_wants(tmp_path):
    profiled = profile(step)
    for name in ("first.json", "second.json"):
        profiled.write_trace(tmp_path / name)
        trace = json.loads((tmp_path / name).read_text(encoding="utf-8"))
        names = [event.get("name") for event in trace["traceEvents"]]
        assert names.count("aten::mm") == 2


def test_nothing_is_printed(capfd):
    profile(step)
    assert capfd.readouterr() == ("", "")


def test_what_the_call_itself_prints_is_kept(capfd):
    profile(lambda: print(torch.ones(1).sum().item()), num_warm_up=0)
    assert capfd.readouterr().out == "1.0\n"


def test_ranges_are_seen_as_context_and_as_decorator():
    @named_range("the {forward} pass")
    def forward(x):
        return x * 2

    def call():
        with named_range("outer"):
            return forward(forward(torch.ones(2)))

    operators = profile(call).operators
    assert row(operators, "outer").calls == 1
    assert row(operators, "the {forward} pass").calls == 2


def test_a_range_ends_with_an_error():
    def call():
        with pytest.raises(KeyError), named_range("failing"):
            raise KeyError
        torch.ones(1)

    names = [event.get("name") for event in profile(call, num_warm_up=0).trace["traceEvents"]]
    assert names.index("failing") >= 0


def test_on_a_gpu_a_range_is_also_one_of_nvtx(monkeypatch):
    seen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", seen.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: seen.append("over"))
    with pytest.raises(KeyError), named_range("outer"):
        raise KeyError
    assert seen == ["outer", "over"]


def test_a_profile_says_its_size():
    profiled = profile(lambda: torch.ones(3), num_warm_up=0)
    # ones calls empty and fill_
    assert repr(profiled) == "Profile: 3 calls of 3 operators"


def test_what_makes_no_sense_is_told():
    with pytest.raises(ValueError, match="profile saw no operator: the call must run some"):
        profile(lambda: None)
    with pytest.raises(TypeError, match="profile wants a function that takes nothing, got float"):
        profile(1.0)
    with pytest.raises(ValueError, match="num_warm_up must be zero or above"):
        profile(step, num_warm_up=-1)
    with (
        pytest.raises(TypeError, match="named_range wants a name in quotes, got function"),
        named_range(step),
    ):
        pass
    with fake_tensors(), pytest.raises(ValueError, match="profile measures real work"):
        profile(step)
    with pytest.raises(ValueError, match="profile cannot run inside count_flops"):
        count_flops(lambda: profile(step))
