"""Does a plan fit, and how long does its step take?

Conventions. Memory is that of a device that has the most of every part: the first stage's
activations and the last stage's loss. Left out: ids, the last norm, what a norm's input costs
beside the layers. Time: messages inside of layers and gathered weights are not hidden at all;
gradients hide behind the backward pass of the last micro-batch, as far as they can. The update only
moves bytes, so it takes as many times longer than they do as all other such kernels.

Letters: d t p data, tensor, pipeline sizes; b sequences of a micro-batch; m micro-batches of a
step; N parameters, L layers, h hidden size, v vocabulary, s tokens, A bytes that a layer keeps.

    >>> task = Task(preset("Llama-3.2-1B"), 4096, 256, machine_of("A100-80", num_devices=4))
    >>> round(task.bytes_of(Plan(data=4, micro_batch=4)) / 1e9, 1)
    65.0
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from course_utils.configs import LAST_STAGE, Machine, ModelConfig, Plan
from course_utils.formulas.activations import llama_layer_bytes
from course_utils.formulas.parameters import parameters
from course_utils.formulas.sharding import sharded_state_bytes
from course_utils.formulas.step_parts import token_seconds

BF16_BYTES, RECIPE = 2, "bf16"
LOGIT_BYTES = 2 + 4 + 4  # bf16 logits, fp32 log-probabilities, fp32 gradient
GATHERED_LAYERS = 2  # one in use, one on its way
UPDATE_BYTES = 28  # of a parameter: master weight and moments read and written, gradient, weight


def plan_bytes(
    model: ModelConfig, sizes: Mapping[str, int], seq_len: int, num_sequences: int, plan: Plan
) -> dict[str, int]:
    """Bytes on the fullest device, by part.

    Args:
        model: A Llama, its sizes divisible as the plan wants it.
        sizes: As `model_sizes` gives them.
        seq_len: Tokens of a sequence.
        num_sequences: Of a step, on all devices.
        plan: How they are spread.

    Returns:
        ``state``, ``gathered``, ``layers`` and ``loss``.
    """
    shared, tokens = plan.tensor, plan.micro_batch * seq_len
    held = min(plan.pipeline, plan.num_micro_batches(num_sequences))
    own_layers = model.num_layers // plan.pipeline
    kept = plan.micro_batch * sizes["layer_bytes"] // shared
    layers = held * own_layers * kept
    if plan.is_recomputed:
        boundary = tokens * model.hidden_size * BF16_BYTES // shared
        layers = held * own_layers * boundary + kept
    state = sharded_state_bytes(_rank_parameters(sizes, plan), plan.data, plan.zero_stage, RECIPE)
    is_gathered = plan.zero_stage == LAST_STAGE and plan.data > 1
    gathered = GATHERED_LAYERS * BF16_BYTES * sizes["layer_parameters"] // shared
    return {
        "state": sum(state.values()),
        "gathered": is_gathered * gathered,
        "layers": layers,
        "loss": LOGIT_BYTES * tokens * model.vocab_size // shared,
    }


@functools.lru_cache(maxsize=1024)
def model_sizes(model: ModelConfig, seq_len: int) -> dict[str, int]:
    """What a plan has to know of a model.

    Returns:
        ``parameters`` of the whole model, ``layer_parameters`` of a layer's attention and
        feed-forward block, ``layer_bytes`` that a layer keeps for one sequence, nothing recomputed.
    """
    parts = parameters(model)
    return {
        "parameters": sum(parts.values()),
        "layer_parameters": (parts["attention"] + parts["feed_forward"]) // model.num_layers,
        "layer_bytes": sum(llama_layer_bytes(model, 1, seq_len, BF16_BYTES).values()),
    }


def _rank_parameters(sizes: Mapping[str, int], plan: Plan) -> int:
    """Parameters of one device before the replicas shard them, as if all were cut evenly."""
    return -(-sizes["parameters"] // (plan.tensor * plan.pipeline))


def seconds_of_step(
    num_micro_batches: int,
    num_stages: int,
    num_layers: int,
    forward_seconds: float,
    reduce_seconds: float,
) -> dict[str, float]:
    """Seconds of a step whose gradients are summed layer by layer behind the last backward pass.

    Args:
        num_micro_batches: Passes m of a stage.
        num_stages: Stages p.
        num_layers: Equal layers of a stage; gradients travel as soon as a layer has them.
        forward_seconds: Of a micro-batch on a stage; backward takes twice as long.
        reduce_seconds: For the gradients of all layers of a stage.

    Returns:
        ``work``, ``bubble``, and ``exposed``: what is left of the sum when backward is over.
    """
    both = 3 * forward_seconds
    behind = 2 * forward_seconds * (num_layers - 1) / num_layers
    return {
        "work": num_micro_batches * both,
        "bubble": (num_stages - 1) * both,
        "exposed": max(reduce_seconds / num_layers, reduce_seconds - behind),
    }


def plan_seconds(
    model: ModelConfig, seq_len: int, num_sequences: int, machine: Machine, plan: Plan
) -> dict[str, float]:
    """Seconds of a step, by part.

    Returns:
        ``compute``, ``tensor`` (messages inside of layers), ``gathers``, ``bubble``, ``gradients``
        (as far as they are not hidden) and ``update``.
    """
    num_micro_batches = plan.num_micro_batches(num_sequences)
    own_layers = model.num_layers // plan.pipeline
    compute = plan.micro_batch * seq_len * _token_compute(model, seq_len, machine, plan)
    messages = own_layers * _layer_messages(model, seq_len, machine, plan)
    mine = _rank_parameters(model_sizes(model, seq_len), plan)
    share = (plan.data - 1) / plan.data
    once = share * BF16_BYTES * mine / machine.link_bytes_per_second
    is_last = plan.zero_stage == LAST_STAGE
    gathers = 3 * once * is_last
    forward = (compute + messages + gathers) / 3
    reduce = 2 * once * (not is_last)
    step = seconds_of_step(num_micro_batches, plan.pipeline, own_layers, forward, reduce)
    updated = mine / (plan.data if plan.zero_stage else 1)
    return {
        "compute": num_micro_batches * compute,
        "tensor": num_micro_batches * messages,
        "gathers": num_micro_batches * gathers,
        "bubble": step["bubble"],
        "gradients": step["exposed"],
        "update": machine.elementwise * update_seconds(updated, machine),
    }


def update_seconds(num_params: float, machine: Machine) -> float:
    """Seconds in which a device updates its parameters, if only their bytes took time."""
    return UPDATE_BYTES * num_params / machine.memory_bytes_per_second


def _token_compute(model: ModelConfig, seq_len: int, machine: Machine, plan: Plan) -> float:
    parts = token_seconds(model, seq_len, machine, plan.is_recomputed)
    whole = parts["products"] + machine.attention * parts["attention"]
    whole += machine.elementwise * parts["elementwise"]
    return whole / (plan.tensor * plan.pipeline)


def _layer_messages(model: ModelConfig, seq_len: int, machine: Machine, plan: Plan) -> float:
    """Seconds of a layer's gathers and scatters: eight of a share, twelve if it runs again."""
    share = (plan.tensor - 1) / plan.tensor
    sent = plan.micro_batch * seq_len * model.hidden_size * BF16_BYTES * share
    return (12 if plan.is_recomputed else 8) * sent / machine.link_bytes_per_second


@dataclass(frozen=True)
class Task:
    """What is trained on what, so that a plan alone is left to choose.

    Attributes:
        model: Its sizes.
        seq_len: Tokens of a sequence.
        num_sequences: Of a step, on all devices.
        machine: The devices.
    """

    model: ModelConfig
    seq_len: int
    num_sequences: int
    machine: Machine

    @property
    def _sizes(self) -> dict[str, int]:
        return model_sizes(self.model, self.seq_len)

    def bytes_by_part(self, plan: Plan) -> dict[str, int]:
        """Bytes on the fullest device, as `plan_bytes` names them."""
        return plan_bytes(self.model, self._sizes, self.seq_len, self.num_sequences, plan)

    def seconds_by_part(self, plan: Plan) -> dict[str, float]:
        """Seconds of a step, as `plan_seconds` names them."""
        sizes = self.model, self.seq_len, self.num_sequences, self.machine
        return plan_seconds(*sizes, plan)

    def bytes_of(self, plan: Plan) -> int:
        """Bytes on the fullest device."""
        return sum(self.bytes_by_part(plan).values())

    def seconds_of(self, plan: Plan) -> float:
        """Seconds of a step."""
        return math.fsum(self.seconds_by_part(plan).values())
