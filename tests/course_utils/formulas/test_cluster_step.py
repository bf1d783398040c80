"""A step on many nodes: cut of stages, memory of ranks, work and pace, constants."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from course_utils.configs import Plan, RunConfig, preset
from course_utils.formulas.activations import layer_saved_bytes
from course_utils.formulas.cluster_step import MEGATRON, NANOTRON, Pace, stacked, step_work
from course_utils.formulas.least_squares import fit
from course_utils.formulas.parameters import parameters
from course_utils.formulas.rank_memory import (
    RankMemory,
    megatron_memory,
    nanotron_layer_bytes,
    nanotron_memory,
)
from course_utils.formulas.stage_cut import cut_by_cost, cut_evenly, rank_parameters, refusal
from course_utils.formulas.step import Step

LLAMA = preset("Llama-3-8B")
SMALL = replace(LLAMA, num_layers=16, hidden_size=2048, ffn_size=8192, head_dim=64)


def step(model=LLAMA, num_sequences=64, **sizes):
    return Step(model, 4096, num_sequences, Plan(**sizes))


@dataclass
class Counted:
    """Rates that count: products take a second a call, messages one for each number sent."""

    scattered: int = 0

    def linear(self, num_tokens, inner, outer, num_forward=1):
        return 1.0

    def attention(self, num_sequences, seq_len, num_heads, head_dim, num_forward=1):
        return 10.0

    def moving(self, num_bytes, num_kernels=0):
        return 0.0

    def collective(self, name, num_bytes, group):
        self.scattered += name == "reduce_scatter"
        return num_bytes * (group.num_ranks > 1) * (name == "reduce_scatter")

    def to_next_stage(self, num_bytes, stride):
        return 0.0


@pytest.mark.parametrize("cut", [cut_evenly, cut_by_cost])
@pytest.mark.parametrize("num_stages", [1, 2, 4, 8])
def test_stages_hold_every_parameter_once(cut, num_stages):
    stages = cut(LLAMA, num_stages)
    assert len(stages) == num_stages
    whole = sum(rank_parameters(LLAMA, stage, 1) for stage in stages)
    assert whole == sum(parameters(LLAMA).values())


def test_a_tied_head_is_there_twice_on_two_stages():
    tied = replace(SMALL, is_tied=True)
    one, two = (
        sum(rank_parameters(tied, stage, 1) for stage in cut_by_cost(tied, n)) for n in (1, 2)
    )
    assert two - one == tied.vocab_size * tied.hidden_size


def test_nanotron_puts_ten_of_sixteen_layers_before_a_head_that_costs_four():
    model = replace(SMALL, num_kv_heads=32, vocab_size=131072)
    assert [stage.num_layers for stage in cut_by_cost(model, 2)] == [10, 6]
    assert [stage.has_loss for stage in cut_by_cost(model, 8)][-2:] == [False, True]


def test_stages_that_do_not_divide_the_layers_are_refused():
    with pytest.raises(ValueError, match="3 stages do not divide 32 layers"):
        cut_evenly(LLAMA, 3)


def test_what_the_schedule_refuses_is_said():
    assert refusal(LLAMA, 8, 7) == ""
    assert refusal(LLAMA, 8, 6) == "8 stages want 7 micro-batches, got 6"
    assert refusal(SMALL, 32, 64) == "32 stages, but 21 blocks"


@pytest.mark.parametrize(
    ("name", "wanted"), [("DeepSeek-V3", "latent attention"), ("Mixtral-8x7B", "experts")]
)
def test_what_no_run_has_checked_is_refused_by_name(name, wanted):
    with pytest.raises(ValueError, match=f"{wanted}: such a step cannot be planned here"):
        Step(preset(name), 4096, 64, Plan())
    with pytest.raises(ValueError, match="no context ranks"):
        step(context=2)
    with pytest.raises(ValueError, match="tensor ranks that do not divide the heads"):
        step(tensor=64)


@pytest.mark.parametrize(("has_fp32_gradients", "num_bytes"), [(False, 16), (True, 18)])
def test_state_takes_sixteen_bytes_or_eighteen(has_fp32_gradients, num_bytes):
    sizes = {"zero_stage": 1, "has_fp32_gradients": has_fp32_gradients}
    whole, shared = (nanotron_memory(step(data=d, **sizes), 0).kept for d in (1, 4))
    num_params = sum(parameters(LLAMA).values())
    assert whole["weights"] + whole["gradients"] + whole["optimizer"] == num_bytes * num_params
    assert 4 * shared["optimizer"] == whole["optimizer"]
    assert whole["buckets of DDP"] == 0


def test_ddp_keeps_buckets_and_zero_gathers_in_one_piece():
    ddp, zero = (
        nanotron_memory(step(data=4, zero_stage=n, has_fp32_gradients=True), 0) for n in (0, 1)
    )
    weights = 2 * sum(parameters(LLAMA).values())
    assert (ddp.kept["buckets of DDP"], zero.kept["buckets of DDP"]) == (weights, 0)
    assert zero.added["weights gathered in one piece"] == weights
    assert ddp.added["weights gathered in one piece"] == 0


def test_nanotron_keeps_queries_and_keys_once_more_where_heads_are_not_shared():
    model = replace(LLAMA, num_kv_heads=32)
    plain = sum(layer_saved_bytes(model, RunConfig(seq_len=4096)).values())
    assert nanotron_layer_bytes(model, 4096) - plain == 2 * 2 * 4096 * 4096


def test_earlier_stages_hold_more_micro_batches():
    kept = [megatron_memory(step(pipeline=4), n).kept["activations"] for n in range(4)]
    assert kept == [n * kept[-1] for n in (4, 3, 2, 1)]


@pytest.mark.parametrize(("limit", "said"), [(9, "does not"), (10, "may fit"), (15, "fits")])
def test_a_plan_fits_may_fit_or_does_not(limit, said):
    assert RankMemory({"weights": 12}, 10, {"buffers": 3}).verdict(limit) == said


def test_the_longer_of_work_and_launches_counts():
    work = step_work(step(num_sequences=8), NANOTRON, Counted())
    gpu = 32 * (4 + 10) + 1
    for launch, wanted in ((1.0, gpu), (100.0, 3200.0)):
        parts = work.parts(Pace(launch=launch))
        assert parts["work"] + parts["launches"] == pytest.approx(8 * wanted)
        assert parts["work"] == pytest.approx(8 * gpu)
        assert parts["bubble"] == 0


def test_stages_on_several_nodes_and_wide_tensor_ranks_have_their_price():
    pace, price = Pace(launch=1, turn=2, hop=3), {}
    for name, sizes in {
        "one node": {"tensor": 4},
        "staged": {"data": 2, "tensor": 4, "pipeline": 2},
        "wide": {"tensor": 16},
    }.items():
        work = step_work(step(**sizes), NANOTRON, Counted())
        price[name] = work.launches(pace).max() / work.num_layers.max()
    assert price == {"one node": 1, "staged": 1 + 2 * 4, "wide": 1 + 3 * 16}


def test_stage_two_scatters_gradients_after_each_micro_batch():
    one, two = (step_work(step(data=4, zero_stage=n), MEGATRON, Counted()).replicas for n in (1, 2))
    assert two == 16 * one


def test_plans_in_rows_take_what_each_takes_alone():
    works = [
        step_work(step(**sizes), NANOTRON, Counted())
        for sizes in ({"data": 2}, {"pipeline": 4}, {"tensor": 16})
    ]
    pace = Pace(2, 0.1, 0.2, 0.3, 0.4)
    alone = [float(each.seconds(pace)) for each in works]
    assert stacked(works).seconds(pace).tolist() == pytest.approx(alone)


def test_constants_come_back_and_one_bad_row_does_not_bend_them():
    x = np.linspace(1, 5, 30)
    measured = 2 * x + 3
    measured[4] *= 4
    found = fit(lambda c: c[0] * x + c[1], measured, [1, 1])
    assert found.tolist() == pytest.approx([2, 3], rel=0.02)
