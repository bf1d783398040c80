"""Plans as arguments of frameworks: every number arrives, and what cannot be said is refused."""

import re
from dataclasses import replace

import pytest

from course_utils.configs import Plan
from course_utils.planner.flags import TABLE, arguments, flags

WHOLE = Plan(data=4, tensor=2, pipeline=2, zero_stage=1, micro_batch=8)
EXACT = replace(WHOLE, has_fp32_gradients=True)


@pytest.mark.parametrize("framework", ["torchtitan", "Megatron-LM", "DeepSpeed", "nanotron"])
def test_each_framework_names_project_and_commit(framework):
    said = TABLE.read_text(encoding="utf-8")
    assert re.search(rf"^# {framework}: [\w-]+/[\w-]+ [0-9a-f]{{40}}, ", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("framework", "plan", "wanted"),
    [
        ("Megatron-LM", WHOLE, "--pipeline-model-parallel-size 2"),
        ("Megatron-LM", Plan(data=8, zero_stage=3, has_fp32_gradients=True), "grads_params"),
        ("nanotron", EXACT, "tokens.batch_accumulation_per_replica=4"),
        (
            "torchtitan",
            Plan(data=8, zero_stage=2, has_fp32_gradients=True),
            "fsdp_reshard_after_forward=never",
        ),
        (
            "torchtitan",
            Plan(data=2, pipeline=4, zero_stage=3, has_fp32_gradients=True),
            "local_batch_size=64",
        ),
        ("DeepSpeed", Plan(data=4, tensor=2, zero_stage=2), "tensor_parallel.autotp_size=2"),
        ("DeepSpeed", Plan(has_fp32_gradients=True), "gradient_accumulation_steps=128"),
        ("Megatron-LM", WHOLE, "--bf16 --grad-reduce-in-bf16"),
        ("Megatron-LM", Plan(data=8, has_fp32_gradients=True), "--bf16"),
        ("nanotron", Plan(has_fp32_gradients=True), "optimizer.accumulate_grad_in_fp32=true"),
        ("DeepSpeed", Plan(data=4, zero_stage=1, has_fp32_gradients=True), "grad_accum_dtype=fp32"),
        ("DeepSpeed", Plan(data=4, zero_stage=3), "grad_accum_dtype=bf16"),
    ],
)
def test_the_numbers_of_a_plan_arrive(framework, plan, wanted):
    assert wanted in " ".join(flags(framework, plan, 4096, 128))


@pytest.mark.parametrize(
    ("framework", "plan", "reason"),
    [
        ("torchtitan", Plan(data=8, zero_stage=1), "ZeRO stage 1"),
        ("torchtitan", Plan(data=4, tensor=2), "ZeRO stage 0 with tensor ranks"),
        ("nanotron", Plan(data=4, zero_stage=2), "ZeRO stage 2"),
        ("torchtitan", Plan(data=8, zero_stage=3), "ZeRO stage 3 with gradients in bf16"),
        ("DeepSpeed", Plan(data=4), "ZeRO stage 0 with gradients in bf16"),
        ("DeepSpeed", Plan(data=4, pipeline=2), "ZeRO stage 0 with several pipeline stages"),
        ("DeepSpeed", Plan(pipeline=2, has_fp32_gradients=True), "several pipeline stages"),
        (
            "DeepSpeed",
            Plan(is_recomputed=True, has_fp32_gradients=True),
            "layers run again",
        ),
        (
            "Megatron-LM",
            Plan(data=2, pipeline=2, zero_stage=3),
            "ZeRO stage 3 with several pipeline stages",
        ),
    ],
)
def test_what_a_framework_cannot_express_is_refused(framework, plan, reason):
    with pytest.raises(ValueError, match=f"{framework} has no argument for {reason}(: |; |$)"):
        flags(framework, plan, 4096, 128)


def test_a_framework_says_each_reason_that_it_has():
    with pytest.raises(
        ValueError, match=r"for ZeRO stage 1; nor for ZeRO stage 1 with .* bf16: weights"
    ):
        flags("torchtitan", Plan(data=4, tensor=2, zero_stage=1), 4096, 128)
    with pytest.raises(ValueError, match=r"for ZeRO stage 1$"):
        flags("torchtitan", Plan(data=4, zero_stage=1, has_fp32_gradients=True), 4096, 128)


def test_a_batch_that_is_not_cut_evenly_and_an_unknown_framework_are_refused():
    with pytest.raises(ValueError, match="no whole number of micro-batches"):
        flags("nanotron", Plan(data=3, has_fp32_gradients=True), 4096, 128)
    with pytest.raises(ValueError, match="torchtitan"):
        flags("torchtitans", Plan(), 4096, 128)


def test_no_argument_has_a_place_for_what_is_no_number_of_a_plan():
    known = {*vars(Plan()), "seq_len", "num_sequences", "num_micro_batches", "replica_sequences"}
    for lines in arguments().values():
        assert set(re.findall(r"{(\w+)}", " ".join(lines.values()))) <= known


@pytest.mark.parametrize("plan", [WHOLE, Plan(), Plan(data=4)], ids=str)
def test_nanotron_without_gradients_in_fp32_has_no_master_weights_and_is_refused(plan):
    with pytest.raises(ValueError, match=r"no copy of the weights in fp32.*take gradients in fp32"):
        flags("nanotron", plan, 4096, 128)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(data=4, pipeline=2, zero_stage=1, has_fp32_gradients=True),
        Plan(is_recomputed=True, has_fp32_gradients=True),
    ],
    ids=str,
)
def test_what_deepspeed_makes_in_code_is_called_so(plan):
    with pytest.raises(ValueError, match="made in code, not by an argument: "):
        flags("DeepSpeed", plan, 4096, 128)


def test_tensor_ranks_that_do_not_divide_the_sequence_get_no_flags():
    with pytest.raises(ValueError, match="8,192 tokens of a sequence into 12 equal parts"):
        flags("Megatron-LM", Plan(tensor=12), 8192, 128)
