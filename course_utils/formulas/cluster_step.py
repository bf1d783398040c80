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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from course_utils.configs import ModelConfig
from course_utils.formulas.rates import NODE, Group, Rates
from course_utils.formulas.stage_cut import Stage, cut_by_cost, cut_evenly, rank_parameters
from course_utils.formulas.step import Step

BF16_BYTES, FP32_BYTES = 2, 4
OPTIMIZER_BYTES = 28  # of a parameter that a rank updates: as in `formulas.plan`
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
    """Constants of a software: two factors, three times of a layer in seconds."""

    elementwise: float = 1
    launch: float = 0
    turn: float = 0
    hop: float = 0
    replicas: float = 1


@dataclass(frozen=True, kw_only=True)
class StepWork:
    """What a step has to do, in seconds at the rates that are known; one plan or many in rows.

    Attributes:
        computed: Products and attention of a micro-batch, on each stage.
        moved: The same, of kernels that only move bytes.
        messages: The same, of messages between tensor ranks.
        num_layers: Layers of each stage.
        num_micro_batches: Passes m of a stage.
        tensor: Tensor ranks.
        is_staged: Whether stages lie on several nodes.
        is_wide: Whether tensor ranks do.
        is_spread: Whether replicas of a stage do.
        replicas: Of the messages between replicas in a step.
        update: Of the update.
    """

    computed: Array
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
        """Seconds of a step: ``micro_batches``, ``bubble``, ``replicas`` and ``update``."""
        by_stage = np.maximum(self.work(pace), self.launches(pace))
        slowest = by_stage.max(axis=-1)
        return {
            "micro_batches": self.num_micro_batches * slowest,
            "bubble": by_stage.sum(axis=-1) - slowest,
            "replicas": np.where(self.is_spread, pace.replicas, 1) * self.replicas,
            "update": pace.elementwise * self.update,
        }

    def work(self, pace: Pace) -> Array:
        """Seconds of the GPU for a micro-batch, on each stage."""
        alone = self.computed + pace.elementwise * self.moved
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
    computed, moved, messages = np.array([work[stage] for stage in stages]).T
    num_params = max(rank_parameters(model, stage, plan.tensor) for stage in stages)
    own_share = num_params / (plan.data if plan.zero_stage else 1)
    updated = OPTIMIZER_BYTES * own_share + framework.update_bytes * num_params
    return StepWork(
        computed=computed,
        moved=moved,
        messages=messages,
        num_layers=np.array([float(stage.num_layers) for stage in stages]),
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
) -> tuple[float, float, float]:
    """Seconds of products and attention, of moved bytes and of messages of a micro-batch."""
    model, plan, tokens, t = step.model, step.plan, step.num_tokens, step.plan.tensor
    h, f, dim = model.hidden_size, model.ffn_size, model.head_dim
    queries, keys = model.num_heads * dim, model.num_kv_heads * dim
    layer = (
        rates.linear(tokens, h, (queries + 2 * keys) // t)
        + rates.linear(tokens, queries // t, h)
        + rates.linear(tokens, h, 2 * f // t)
        + rates.linear(tokens, f // t, h)
    )
    layer += rates.attention(plan.micro_batch, step.seq_len, model.num_heads // t, dim)
    numbers = 10 * h + 3 * f + 3 * (queries + keys)  # as in `step_parts`, and rotations
    moved_bytes = 3 * BF16_BYTES * tokens * numbers / t
    sums = framework.sum_bytes * rank_parameters(model, stage, t)
    messages = GATHERS * rates.collective("all_gather", step.hidden_bytes, Group(t))
    messages += SCATTERS * rates.collective("reduce_scatter", step.hidden_bytes, Group(t))
    border = 2 * rates.to_next_stage(step.hidden_bytes / t, plan.data * t)
    head = stage.has_head * rates.linear(tokens, h, model.vocab_size // t)
    loss = stage.has_loss * framework.loss_bytes * tokens * model.vocab_size / t
    n = stage.num_layers
    moved = n * rates.moving(moved_bytes, KERNELS) + rates.moving(sums + loss)
    return n * layer + head, moved, n * messages + border * (plan.pipeline > 1)


def _replica_seconds(step: Step, num_params: int, framework: Framework, rates: Rates) -> float:
    """Messages between the replicas of the fullest stage in a step."""
    plan, m = step.plan, step.num_micro_batches

    def sent(name: str, bytes_each: int) -> float:
        return rates.collective(name, bytes_each * num_params, Group(plan.data, plan.tensor))

    whole = sent("all_reduce", FP32_BYTES)
    scatter, gather = sent("reduce_scatter", FP32_BYTES), sent("all_gather", BF16_BYTES)
    return (
        whole,
        (whole if framework.is_summed_whole else scatter) + gather,
        m * scatter + gather,
        m * (scatter + 2 * gather),
    )[plan.zero_stage]


def stacked(works: Sequence[StepWork]) -> StepWork:
    """Many plans in rows; stages that a plan does not have do nothing."""
    deepest = max(len(each.computed) for each in works)

    def column(name: str) -> Array:
        values = [getattr(each, name) for each in works]
        if values[0].ndim:
            values = [np.pad(each, (0, deepest - len(each))) for each in values]
        return np.array(values)

    return StepWork(**{name: column(name) for name in StepWork.__dataclass_fields__})
