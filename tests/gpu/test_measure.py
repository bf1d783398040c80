"""The script that measures on a GPU, run on a CPU with toy sizes; and the optimised step."""

import json
import weakref
from dataclasses import replace
from itertools import product

import pytest
import torch

from course_utils.configs import preset
from course_utils.formulas.recomputation import POLICIES
from course_utils.instruments import PeakMemory
from course_utils.reference import Training
from course_utils.reference.training import ADAMW
from course_utils.traces import read_trace, select
from tests.gpu import measure
from tests.gpu.fast_training import FastTraining
from tests.gpu.memory import (
    PRECISIONS,
    cases,
    measured_row,
    predicted_row,
    trace_on_fake_tensors,
)
from tests.gpu.setting import TINY, Case, Setting, build, reset_device, row_or_trouble

# PyTorch's compiler triggers these warnings itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

ON_A_CPU = ["--device", "cpu", "--tiny"]


@pytest.mark.parametrize("part", measure.PARTS)
def test_each_part_runs_on_a_cpu_and_says_so(part, tmp_path, capsys):
    measure.main([*ON_A_CPU, "--part", part, "--out", str(tmp_path)])
    path = tmp_path / f"{part}-cpu-tiny.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    assert list(tmp_path.iterdir()) == [path]
    assert (record["is_from_gpu"], record["is_tiny"], record["device"]) == (False, True, "CPU")
    assert record["command"] == f"python -m tests.gpu.measure --part {part} --device cpu --tiny"
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert record["torch"] == torch.__version__
    assert record["results"]
    assert not [row for row in record["results"] if "trouble" in row]
    assert capsys.readouterr().err == ""


def test_on_one_device_all_counts_agree():
    rows = list(measure.PARTS["counts"](Setting(device="cpu", is_tiny=True)))
    assert all(row["agree"] and row["on_cpu"]["saved_bytes"] > 0 for row in rows)


def test_a_measured_trace_is_read_by_the_one_reader():
    rows = list(measure.PARTS["traces"](Setting(device="cpu", is_tiny=True)))
    fused, loop = (select(read_trace(row), kind="cpu_op") for row in rows)
    assert [row["adamw"] for row in rows] == ["fused", "for-loop"]
    assert 0 < len(fused) < len(loop)  # an operator for every parameter and step of the formula


def test_cases_are_24_and_each_adamw_meets_each_policy_and_precision():
    all_cases = list(cases())
    assert len(set(all_cases)) == 24
    met = {(case.adamw, case.policy, case.precision) for case in all_cases}
    assert met == set(product(ADAMW, POLICIES, PRECISIONS))
    for case in all_cases:
        assert case.seq_len <= (preset(case.model_name).num_positions or case.seq_len)


def test_predictions_are_in_order():
    """Rounding only adds bytes, and the course's allocator allocates at least the rounded bytes."""
    case = Case(model_name="", seq_len=16, policy="full")
    row = predicted_row(trace_on_fake_tensors(case, TINY))
    assert row["traced_bytes"] < row["rounded_bytes"] <= row["simulated_allocated_bytes"]
    assert row["simulated_allocated_bytes"] <= row["simulated_reserved_bytes"]
    assert sum(row["live_at_peak"].values()) == row["traced_bytes"]


def test_a_measured_row_has_the_ratio_of_predicted_to_measured():
    trace = trace_on_fake_tensors(Case(model_name="", seq_len=16, policy="none"), TINY)
    sizes = {"start_allocated_bytes": 0, "start_reserved_bytes": 0, "reserved_bytes": 2**21}
    peak = PeakMemory(requested_bytes=2 * trace.peak_bytes, allocated_bytes=2**20, **sizes)
    row = measured_row(peak, trace)
    assert row["traced_by_requested"] == 0.5
    assert row["rounded_by_allocated"] * 2**20 == predicted_row(trace)["rounded_bytes"]
    failed = measured_row(replace(peak, wanted_bytes=2**40), trace)
    assert not failed["measured"]["fits"]
    assert "traced_by_requested" not in failed
    assert measured_row(None, trace) == {"measured": None}


def test_one_configuration_that_fails_does_not_end_the_others():
    def out_of_memory():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    def wrong():
        raise RuntimeError("no kernel\nand a long story")

    assert row_or_trouble(out_of_memory) == {"trouble": "out of memory"}
    assert row_or_trouble(wrong) == {"trouble": "RuntimeError: no kernel"}
    assert row_or_trouble(lambda: {"seconds": 1}) == {"seconds": 1}


def test_what_a_configuration_held_is_freed_before_the_next():
    fast, plain = pair("eager")
    fast.step()
    held = weakref.ref(fast.model)
    del fast, plain
    reset_device()
    assert held() is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--device", "cpu"], "real sizes take a GPU: give --tiny with --device cpu"),
        (["--part", "speed"], "invalid choice: 'speed'"),
        (["--device", "cuda"], "there is no GPU here"),
    ],
)
def test_wrong_arguments_are_rejected(arguments, expected, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        measure.main(arguments)
    assert expected in capsys.readouterr().err


def pair(backend: str) -> tuple[FastTraining, Training]:
    """The optimised training and the reference, with the same weights and tokens."""
    torch.manual_seed(0)
    torch.compiler.reset()
    case = Case(model_name="", seq_len=32, policy="none", micro_batch_size=2)
    fast = FastTraining(TINY, case.run(), "cpu", backend=backend, num_chunks=4)
    plain = build(case, TINY, "cpu")
    plain.model.load_state_dict(fast.model.state_dict())
    plain.ids, plain.targets = fast.ids, fast.targets.reshape(fast.ids.shape)
    return fast, plain


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_optimised_step_has_the_gradients_of_the_reference(backend):
    fast, plain = pair(backend)
    fast.backward()
    plain.loss().backward()
    weights = zip(fast.weights, plain.model.parameters(), strict=True)
    for ours, theirs in weights:
        # bf16 has 8 significant bits, and sums over chunks round in other places
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0.05, atol=1e-4)


def test_the_optimised_step_learns():
    fast, plain = pair("eager")
    before = plain.loss().item()
    for _ in range(20):
        fast.step()
    plain.model.load_state_dict(fast.model.state_dict())
    assert plain.loss().item() < 0.9 * before
    assert all(weight.grad is None for weight in fast.weights)
