"""How long does a step take on many nodes, by what sets the pace?

A micro-batch takes the longer of what the GPU works and what the CPU launches. A step takes m of
them on the slowest stage and one on each other, then the replicas' gradients and the update.

    work     products, attention, all that only moves bytes, messages between tensor ranks; beyond a
             node the messages run beside the work, and the longer of both counts
    launch   seconds of the CPU for each layer and micro-batch, forward and backward
    turn     seconds more for each layer and tensor rank, where stages lie on several nodes
    hop      seconds more for each layer and tensor rank, where tensor ranks do
    replicas how many times as long as links say the replicas' messages take beyond a node

Nothing of the replicas' messages hides: their first gradient is ready when a stage's last backward
pass ends. With stage 2 gradients are scattered after each micro-batch, with stage 3 weights are
gathered twice besides. Links have the rate of a device in a group that spans so many nodes: a ring
uses every adapter, as long as no other ring does.

Sources: the Ultra-Scale Playbook's sweep (`records.sweeps`); huggingface/nanotron 67c5ebb6.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from course_utils.configs import BF16_BYTES, Machine, ModelConfig, precision
from course_utils.formulas.rates import NODE, Group, Rates
from course_utils.formulas.stage_cut import Stage, cut_by_cost, cut_evenly, rank_parameters
from course_utils.formulas.step import Step

# Of a parameter that a rank updates: master weight and moments read and written, gradient, weight.
OPTIMIZER_BYTES = 28
BF16_SUM_BYTES = 6  # of a gradient that is added to another: two are read, one written
GATHERS, SCATTERS = 6, 4  # of a layer: two of each forward; backward two, and two inputs anew
KERNELS = 12  # of a layer that only move bytes, backward included

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Framework:
    """What of a step is a framework's choice.

    Attributes:
        cut: Which blocks lie on which stage.
        loss_bytes: Moved for each logit.
        sum_bytes: Moved for each parameter and micro-batch, to add its gradient in fp32.
        update_bytes: Moved for each parameter in an update, beside the optimizer's own share.
        is_summed_whole: Whether sharded replicas sum whole gradients, where a scatter would do.
    """

    cut: Callable[[ModelConfig, int], list[Stage]]
    loss_bytes: int
    sum_bytes: int
    update_bytes: int
    is_summed_whole: bool


NANOTRON = Framework(
    cut=cut_by_cost, loss_bytes=24, sum_bytes=10, update_bytes=22, is_summed_whole=True
)
MEGATRON = Framework(
    cut=cut_evenly, loss_bytes=8, sum_bytes=0, update_bytes=10, is_summed_whole=False
)


class Pace(NamedTuple):
    """Constants of a software: three factors, three times of a layer in seconds."""

    elementwise: float = 1
    launch: float = 0
    turn: float = 0
    hop: float = 0
    replicas: float = 1
    attention: float = 1


def pace_of(machine: Machine) -> Pace:
    """The constants that a machine carries."""
    return Pace(
        elementwise=machine.elementwise,
        launch=machine.launch_seconds,
        turn=machine.turn_seconds,
        hop=machine.hop_seconds,
        replicas=machine.spread_ratio,
        attention=machine.attention,
    )


@dataclass(frozen=True, kw_only=True)
class StepWork:
    """What a step has to do, in seconds at the rates that are known; one plan or many in rows.

    Attributes:
        products: Matrix products of a micro-batch, on each stage.
        attention: The same, of attention.
        moved: The same, of kernels that only move bytes.
        messages: The same, of messages between tensor ranks.
        num_layers: Layers of each stage, one that runs again as four thirds.
        num_micro_batches: Passes m of a stage.
        tensor: Tensor ranks.
        is_staged: Whether stages lie on several nodes.
        is_wide: Whether tensor ranks do.
        is_spread: Whether replicas of a stage do.
        replicas: Of the messages between replicas in a step.
        update: Of the update.
    """

    products: Array
    attention: Array
    moved: Array
    messages: Array
    num_layers: Array
    num_micro_batches: Array
    tensor: Array
    is_staged: Array
    is_wide: Array
    is_spread: Array
    replicas: Array
    update: Array

    def parts(self, pace: Pace) -> dict[str, Array]:
        """Seconds of a step by what the slowest stage spends them on.

        Returns:
            ``work`` of the GPU; ``messages`` between tensor ranks that nothing hides; ``launches``,
            while the GPU waits for the CPU; ``bubble``; ``replicas``, their messages; ``update``.
        """
        alone, busy = self.alone(pace), self.work(pace)
        by_stage = np.maximum(busy, self.launches(pace))
        slowest = by_stage.argmax(axis=-1)[..., None]

        def in_step(seconds: Array) -> Array:
            return self.num_micro_batches * np.take_along_axis(seconds, slowest, -1)[..., 0]

        return {
            "work": in_step(alone),
            "messages": in_step(busy - alone),
            "launches": in_step(by_stage - busy),
            "bubble": by_stage.sum(axis=-1) - by_stage.max(axis=-1),
            "replicas": np.where(self.is_spread, pace.replicas, 1) * self.replicas,
            "update": pace.elementwise * self.update,
        }

    def alone(self, pace: Pace) -> Array:
        """Seconds of the GPU for a micro-batch without messages, on each stage."""
        return self.products + pace.attention * self.attention + pace.elementwise * self.moved

    def work(self, pace: Pace) -> Array:
        """Seconds of the GPU for a micro-batch, on each stage."""
        alone = self.alone(pace)
        longer = np.maximum(alone, self.messages)
        return np.where(self.is_wide[..., None], longer, alone + self.messages)

    def launches(self, pace: Pace) -> Array:
        """Seconds of the CPU for a micro-batch, on each stage."""
        each = self.is_staged * (self.tensor > 1) * pace.turn + self.is_wide * pace.hop
        return (pace.launch + self.tensor * each)[..., None] * self.num_layers

    def seconds(self, pace: Pace) -> Array:
        """Seconds of a step."""
        return sum(self.parts(pace).values(), start=np.zeros(()))


def step_work(step: Step, framework: Framework, rates: Rates) -> StepWork:
    """The work of a step, by stage.

    Args:
        step: Of which model, on which plan.
        framework: Whose code runs.
        rates: What devices and links reach.
    """
    model, plan = step.model, step.plan
    stages = framework.cut(model, plan.pipeline)
    work = {stage: _stage_work(step, framework, rates, stage) for stage in set(stages)}
    products, attention, moved, messages = np.array([work[stage] for stage in stages]).T
    num_params = max(rank_parameters(model, stage, plan.tensor) for stage in stages)
    own_share = num_params / (plan.data if plan.zero_stage else 1)
    updated = OPTIMIZER_BYTES * own_share + framework.update_bytes * num_params
    return StepWork(
        products=products,
        attention=attention,
        moved=moved,
        messages=messages,
        num_layers=np.array([(3 + plan.is_recomputed) / 3 * each.num_layers for each in stages]),
        num_micro_batches=np.array(float(step.num_micro_batches)),
        tensor=np.array(float(plan.tensor)),
        is_staged=np.array(plan.pipeline > 1 and plan.num_devices > NODE),
        is_wide=np.array(plan.tensor > NODE),
        is_spread=np.array(Group(plan.data, plan.tensor).num_nodes > 1),
        replicas=np.array(_replica_seconds(step, num_params, framework, rates)),
        update=np.array(rates.moving(updated)),
    )


def _stage_work(
    step: Step, framework: Framework, rates: Rates, stage: Stage
) -> tuple[float, float, float, float]:
    """Seconds of products, attention, moved bytes and messages of a micro-batch."""
    model, plan, n = step.model, step.plan, stage.num_layers
    t, passes = plan.tensor, 1 + plan.is_recomputed
    h, dim, words = model.hidden_size, model.head_dim, step.num_tokens * model.vocab_size / t
    layer = math.fsum(
        rates.linear(step.num_tokens, inner, outer, passes) for inner, outer in _matrices(model, t)
    )
    head = stage.has_head * rates.linear(step.num_tokens, h, model.vocab_size // t)
    core = rates.attention(plan.micro_batch, step.seq_len, model.num_heads // t, dim, passes)
    sums = framework.sum_bytes if plan.has_fp32_gradients else BF16_SUM_BYTES
    once: float = min(sums, framework.sum_bytes) * rank_parameters(model, stage, t)
    once += stage.has_loss * framework.loss_bytes * words
    moved_bytes = (2 + passes) * BF16_BYTES * step.num_tokens * _moved_numbers(model) / t
    moved = n * rates.moving(moved_bytes, KERNELS) + rates.moving(once)
    again = 2 * plan.is_recomputed
    messages = (GATHERS + again) * rates.collective("all_gather", step.hidden_bytes, Group(t))
    messages += (SCATTERS + again) * rates.collective("reduce_scatter", step.hidden_bytes, Group(t))
    border = 2 * rates.to_next_stage(step.hidden_bytes / t, plan.data * t)
    return n * layer + head, n * core, moved, n * messages + border * (plan.pipeline > 1)


def _matrices(model: ModelConfig, tensor: int) -> list[tuple[int, int]]:
    """Inner and outer size of each product of a layer, on one of so many tensor ranks."""
    h, f = model.hidden_size, model.ffn_size // tensor
    queries, keys = (n * model.head_dim // tensor for n in (model.num_heads, model.num_kv_heads))
    return [(h, queries + 2 * keys), (queries, h), (h, (1 + model.is_gated) * f), (f, h)]


def _moved_numbers(model: ModelConfig) -> int:
    """Of a token and layer: as in `step_parts`, and rotations where positions are no table."""
    rotated = 3 * model.head_dim * (model.num_heads + model.num_kv_heads)
    inner = (2 + model.is_gated) * model.ffn_size
    return 10 * model.hidden_size + inner + (0 if model.num_positions else rotated)


def _replica_seconds(step: Step, num_params: int, framework: Framework, rates: Rates) -> float:
    """Messages between the replicas of the fullest stage in a step."""
    plan, m = step.plan, step.num_micro_batches
    gradient_bytes = precision(plan.recipe).gradient_bytes

    def sent(name: str, bytes_each: int) -> float:
        return rates.collective(name, bytes_each * num_params, Group(plan.data, plan.tensor))

    whole = sent("all_reduce", gradient_bytes)
    scatter, gather = sent("reduce_scatter", gradient_bytes), sent("all_gather", BF16_BYTES)
    return (
        whole,
        (whole if framework.is_summed_whole else scatter) + gather,
        m * scatter + gather,
        m * (scatter + 2 * gather),
    )[plan.zero_stage]


def stacked(works: Sequence[StepWork]) -> StepWork:
    """Many plans in rows; stages that a plan does not have do nothing."""
    deepest = max(len(each.products) for each in works)

    def column(name: str) -> Array:
        values = [getattr(each, name) for each in works]
        if values[0].ndim:
            values = [np.pad(each, (0, deepest - len(each))) for each in values]
        return np.array(values)

    return StepWork(**{name: column(name) for name in StepWork.__dataclass_fields__})
