"""What a profile holds of a call whose operators are known, and ranges in it; no line on stderr."""

import json

import pytest
import torch

from course_utils.instruments import count_flops, fake_tensors, named_range, profile


def step():
    """Two products: one forward, and one for the gradient of w."""
    w = torch.ones(30, 30, requires_grad=True)
    (torch.ones(30, 30) @ w).relu().sum().backward()


def row(profiled, operator):
    (found,) = [each for each in profiled.rows if each["operator"] == operator]
    return found


def test_operators_by_hand():
    profiled = profile(step)
    assert row(profiled, "aten::mm")["calls"] == 2
    assert row(profiled, "aten::matmul")["calls"] == 1


def test_an_operator_that_calls_another_holds_its_time_in_total_and_not_of_its_own():
    a = torch.ones(400, 400)
    profiled = profile(lambda: a @ a)
    outer, inner = row(profiled, "aten::matmul"), row(profiled, "aten::mm")
    assert outer["total_us"] >= inner["total_us"] > 0
    assert outer["own_us"] < inner["own_us"] <= inner["total_us"]


def test_counts_repeat():
    first, second = ({each["operator"]: each["calls"] for each in profile(step).rows} for _ in "ab")
    assert first == second


def test_the_longest_comes_first():
    own = [each["own_us"] for each in profile(step).rows]
    assert own == sorted(own, reverse=True)


def test_warm_up_is_not_looked_at():
    calls = []
    profiled = profile(lambda: calls.append(torch.ones(1)), num_warm_up=3)
    assert len(calls) == 4
    assert row(profiled, "aten::ones")["calls"] == 1


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


def test_a_range_has_a_name_and_ends_with_an_error():
    def call():
        with named_range("outer"):
            torch.ones(2)
        with pytest.raises(KeyError), named_range("failing"):
            raise KeyError

    profiled = profile(call)
    assert row(profiled, "outer")["calls"] == row(profiled, "failing")["calls"] == 1


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
    with fake_tensors(), pytest.raises(ValueError, match="profile measures real work"):
        profile(step)
    with pytest.raises(ValueError, match="profile cannot run inside count_flops"):
        count_flops(lambda: profile(step))
