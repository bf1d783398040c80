"""How many bytes does a rank hold: at least, by storages, and what does its framework add?

What is at least there is exact: weights, gradients, the optimizer's share, and each storage that
autograd keeps, for every micro-batch in flight, at the fullest of the moments of a step. What a
framework adds has a name each: copies and buffers that its code makes, none of it fitted. So a plan
*fits* if both together do, *does not* if the first alone is too much, and *may fit* in between.

    >>> plan = Plan(data=2, pipeline=4, zero_stage=1)
    >>> memory = nanotron_memory(Step(preset("Llama-3-8B"), 4096, 256, plan), stage=0)
    >>> round(memory.at_least / 2**30, 1), memory.verdict(60 * 2**30)
    (46.3, 'fits')
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from course_utils.configs import (
    BF16_BYTES,
    FP32_BYTES,
    LAST_STAGE,
    Kernels,
    ModelConfig,
    Plan,
    RunConfig,
)
from course_utils.formulas.activations import layer_saved_bytes
from course_utils.formulas.memory import state_bytes_of_recipe
from course_utils.formulas.stage_cut import (
    cut_by_cost,
    cut_evenly,
    layer_matrices,
    rank_parameters,
)
from course_utils.formulas.step import Step


@dataclass(frozen=True)
class RankMemory:
    """Bytes of a rank, by part.

    Attributes:
        kept: What is there at the end of the last forward pass, as it must be.
        at_least: The fullest moment, every block used again as soon as it is free.
        added: What the framework's code adds, if no block is used twice.
    """

    kept: Mapping[str, int]
    at_least: int
    added: Mapping[str, int]

    @property
    def expected(self) -> int:
        """All of it."""
        return sum(self.kept.values()) + sum(self.added.values())

    def verdict(self, limit_bytes: float) -> str:
        """Whether the rank ``"fits"``, ``"may fit"`` or ``"does not"``."""
        if self.at_least > limit_bytes:
            return "does not"
        return "fits" if self.expected <= limit_bytes else "may fit"


def rank_state(num_params: int, plan: Plan) -> dict[str, int]:
    """Weights, gradients and optimizer states of a rank, sharded by the plan's stage."""
    part = -(-num_params // plan.data)
    sharded_from = {"weights": 3, "gradients": 2, "optimizer": 1}
    return {
        name: each * (part if plan.zero_stage >= sharded_from[name] else num_params)
        for name, each in state_bytes_of_recipe(1, plan.recipe).items()
    }


@functools.lru_cache(maxsize=1024)
def nanotron_layer_bytes(model: ModelConfig, seq_len: int) -> int:
    """What nanotron's layer keeps for one sequence, on all tensor ranks together.

    Queries, keys and values lie in one tensor, and what is rotated of it is kept once more; with
    shared heads the queries alone are, and with a table of positions nothing is rotated.
    """
    kept = sum(layer_saved_bytes(model, RunConfig(seq_len=seq_len)).values())
    is_copied = model.num_heads == model.num_kv_heads and not model.num_positions
    copied = is_copied * (model.num_heads + model.num_kv_heads)
    return kept + BF16_BYTES * copied * model.head_dim * seq_len


def nanotron_memory(step: Step, stage: int) -> RankMemory:
    """A rank of nanotron's: 1F1B, sequence parallelism.

    nanotron has DDP and ZeRO-1 alone; stages 2 and 3 are what it would hold with them. Sums in fp32
    leave a micro-batch's own gradients beside them, whole until they are added.
    """
    model, plan = step.model, step.plan
    own = cut_by_cost(model, plan.pipeline)[stage]
    num_params = rank_parameters(model, own, plan.tensor)
    weights = BF16_BYTES * num_params
    layer = plan.micro_batch * (nanotron_layer_bytes(model, step.seq_len) // plan.tensor)
    boundary = step.hidden_bytes // plan.tensor
    layers = own.num_layers * (boundary if plan.is_recomputed else layer)
    ends = 2 * boundary if own.has_head else 0
    state = rank_state(num_params, plan)
    is_shared, new = plan.data > 1, weights if plan.has_fp32_gradients else 0
    is_whole = is_shared and 0 < plan.zero_stage < LAST_STAGE
    gathered = BF16_BYTES * layer_matrices(model) // plan.tensor
    gathered = gathered if is_shared and plan.zero_stage == LAST_STAGE else 0
    state["buckets of DDP"] = new if is_shared and not plan.zero_stage else 0
    state["gathered layer"] = gathered
    kept = state | {
        "activations": in_flight(step, stage) * (layers + ends),
        "logits": own.has_head * _logits(step, 2 * FP32_BYTES),
        "gathered tokens": 2 * step.hidden_bytes if plan.tensor > 1 else 0,
    }
    again = plan.is_recomputed * layer
    after_forward = sum(kept.values())
    without_logits = after_forward - kept["logits"]
    moments = (
        after_forward,
        without_logits + again,  # the last layer's backward pass begins
        without_logits - layers + new + again,  # the first layer's
        sum(state.values()) + is_whole * 2 * weights,  # the update
    )
    added = {
        "layer that runs again": again,
        "new gradients": new,
        "weights gathered in one piece": is_whole * weights,
        "next gathered layer": gathered,
    }
    return RankMemory(kept, max(moments), added)


def megatron_memory(step: Step, stage: int) -> RankMemory:
    """A rank of Megatron-LM's with Transformer Engine: as `nanotron_memory`, but for what it keeps.

    The gate is fused, the loss keeps logits in bf16. Transformer Engine (since 2.3) keeps one bf16
    tensor of the shape of each weight matrix, in the place of a gradient that went into fp32. No
    layer runs again.
    """
    model, plan = step.model, step.plan
    own = cut_evenly(model, plan.pipeline)[stage]
    fused = RunConfig(seq_len=step.seq_len, kernels=Kernels(is_gate_fused=True))
    layer = plan.micro_batch * (sum(layer_saved_bytes(model, fused).values()) // plan.tensor)
    kept = rank_state(rank_parameters(model, own, plan.tensor), plan) | {
        "activations": in_flight(step, stage) * own.num_layers * layer,
        "logits": own.has_head * _logits(step, BF16_BYTES),
    }
    head = own.has_head * model.vocab_size * model.hidden_size
    gate_and_up = 2 * BF16_BYTES * step.num_tokens * model.ffn_size
    added = {
        "stand-ins for gradients": BF16_BYTES * (layer_matrices(model) + head) // plan.tensor,
        "gradient of gate and up": gate_and_up // plan.tensor,
    }
    return RankMemory(kept, sum(kept.values()), added)


def in_flight(step: Step, stage: int) -> int:
    """Micro-batches that a stage holds at once, with 1F1B."""
    return min(step.num_micro_batches, step.plan.pipeline - stage)


def _logits(step: Step, bytes_each: int) -> int:
    return bytes_each * step.num_tokens * step.model.vocab_size // step.plan.tensor
