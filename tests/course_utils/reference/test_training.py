"""The training step learns, keeps what it should from step to step, and peaks where it should."""

import pytest
import torch

from course_utils.configs import RunConfig, precision, preset
from course_utils.formulas.memory import state_bytes
from course_utils.formulas.parameters import parameters
from course_utils.instruments import MemoryTrace, fake_tensors, trace_memory
from course_utils.reference import Training
from course_utils.reference.training import ADAMW, LEARNING_RATE
from tests.random_models import KINDS, random_model

PRECISIONS = ("fp32", "bf16")


def small_run(name: str) -> RunConfig:
    return RunConfig(micro_batch_size=2, seq_len=8, precision=precision(name))


def traced(training: Training, num_steps: int) -> MemoryTrace:
    return trace_memory(training.step, *training.owners, num_steps=num_steps)


@pytest.mark.parametrize("adamw", ADAMW)
@pytest.mark.parametrize("name", PRECISIONS)
def test_the_loss_falls(name, adamw):
    torch.manual_seed(0)
    training = Training(random_model("grouped", 1), small_run(name), adamw=adamw)
    before = training.loss().item()
    for _ in range(20):
        training.step()
    assert training.loss().item() < 0.8 * before


def weights_after_three_steps(name: str, adamw: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    training = Training(random_model("tied", 1), small_run(name), adamw=adamw)
    for _ in range(3):
        training.step()
    return list(training.model.parameters())


@pytest.mark.parametrize("name", PRECISIONS)
def test_all_ways_to_compute_adamw_give_the_same_weights(name):
    first, *others = (weights_after_three_steps(name, adamw) for adamw in ADAMW)
    # the kernels round in other places; a step changes a weight by about the learning rate
    tolerance = 1e-6 if name == "fp32" else LEARNING_RATE
    for other in others:
        torch.testing.assert_close(other, first, rtol=0, atol=tolerance)


def test_master_weights_are_those_of_a_plain_loop():
    """An independent oracle: one optimizer over fp32 copies, with casts by hand."""
    torch.manual_seed(0)
    training = Training(random_model("tied", 1), small_run("bf16"))
    weights = list(training.model.parameters())
    copies = [weight.detach().to(torch.float32).requires_grad_() for weight in weights]
    oracle = torch.optim.AdamW(copies, LEARNING_RATE, foreach=False)
    for _ in range(3):
        for copy, gradient in zip(
            copies, torch.autograd.grad(training.loss(), weights), strict=True
        ):
            copy.grad = gradient.to(torch.float32)
        oracle.step()
        training.step()
    assert all(
        torch.equal(weight, copy.to(torch.bfloat16))
        for weight, copy in zip(weights, copies, strict=True)
    )


@pytest.mark.parametrize("adamw", ADAMW)
@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_between_steps_the_training_state_is_live(kind, name, adamw):
    """16 N bytes without the gradients, and a step counter in fp32 per tensor."""
    sizes, run = random_model(kind, 2), small_run(name)
    with fake_tensors():
        training = Training(sizes, run, adamw=adamw)
        trace = traced(training, 2)
    state = state_bytes(sum(parameters(sizes).values()), run.precision)
    num_tensors = len(list(training.model.parameters()))
    assert trace.live_at(trace.num_operations)["parameters"] == state["weights"]
    assert trace.phases[-1].end_bytes == sum(state.values()) - state["gradients"] + 4 * num_tensors


# Bytes in the optimizer's phase besides 16 N and the step counters, where the largest tensor has E
# elements: in fp32 two temporaries of 4 E, one of 4 N for all tensors, or none. In bf16 the
# gradient in fp32 adds 4 E, or 4 N for all tensors.
TRANSIENT = {
    ("fp32", "for-loop"): (8, 0),
    ("fp32", "foreach"): (0, 4),
    ("fp32", "fused"): (0, 0),
    ("bf16", "for-loop"): (12, 0),
    ("bf16", "foreach"): (0, 8),
    ("bf16", "fused"): (4, 0),
}


@pytest.mark.parametrize(("name", "adamw"), TRANSIENT)
def test_the_update_peaks_where_its_kernels_say(name, adamw):
    sizes, run = random_model("tied", 1), small_run(name)
    with fake_tensors():
        training = Training(sizes, run, adamw=adamw)
        trace = traced(training, 2)
    tensors = [weight.numel() for weight in training.model.parameters()]
    state = sum(state_bytes(sum(tensors), run.precision).values()) + 4 * len(tensors)
    phase = trace.phases[-1]
    peak = max(trace.total_bytes[phase.start : phase.stop])
    of_largest, of_all = TRANSIENT[name, adamw]
    transient = of_largest * max(tensors) + of_all * sum(tensors)
    assert peak == state + transient


# Llama-3.2-1B, one sequence, loss in fp32: GiB at the peak of the first step and of the next. With
# N = 1,235,814,400 the floor is 16 N = 18.415 GiB plus the tied embedding's second gradient and the
# sum of both: 2 * 4 * 2,048 * 128,256 = 1.957 GiB, in bf16 half of it. In bf16 the
# update of the embedding needs more: 12 * 2,048 * 128,256 = 2.936 GiB, fused a third of it.
LLAMA_1B = [
    ("fp32", 1024, "foreach", 23.02, 23.02),
    ("bf16", 4096, "for-loop", 18.60, 27.65),
]


@pytest.mark.parametrize("case", LLAMA_1B, ids=lambda case: "-".join(map(str, case[:3])))
def test_first_steps_of_llama_3_2_1b(case):
    name, seq_len, adamw, *expected = case
    run = RunConfig(seq_len=seq_len, precision=precision(name), is_loss_fp32=True)
    with fake_tensors():
        trace = traced(Training(preset("Llama-3.2-1B"), run, adamw=adamw), 2)
    assert [round(trace.peak_bytes_of(step) / 2**30, 2) for step in (1, 2)] == expected


@pytest.mark.parametrize("adamw", ADAMW)
def test_everything_is_on_the_chosen_device(adamw):
    training = Training(random_model("tied", 1), small_run("bf16"), adamw=adamw, device="meta")
    groups = (group for each in training.optimizers for group in each.param_groups)
    updated = (weight for group in groups for weight in group["params"])
    tensors = (*training.model.parameters(), training.ids, training.targets, *updated)
    assert {each.device.type for each in tensors} == {"meta"}


def test_wrong_arguments_raise():
    sizes = random_model("grouped", 1)
    with pytest.raises(ValueError, match="must be one of for-loop, foreach, fused, got 'for'"):
        Training(sizes, small_run("fp32"), adamw="for")
    with pytest.raises(ValueError, match=r"use precision\('fp32'\) or precision\('bf16'\)"):
        Training(sizes, small_run("bf16-fp32-gradients"))
