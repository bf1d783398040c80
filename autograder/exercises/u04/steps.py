"""The checks of unit 04 on what is live when: four moments, and three candidates for the peak."""

import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, named
from autograder.exercises.declaring import declares_check
from course_utils.configs import ModelConfig, RunConfig, precision
from course_utils.formulas.activations import model_saved_bytes
from course_utils.formulas.parameters import parameters
from course_utils.instruments import MemoryTrace, Phase, fake_tensors, trace_memory
from course_utils.reference import Training
from course_utils.reference.training import ADAMW

# === u04-moments
# The bytes live at the end of each phase of a training step.


MOMENTS_NAMES = ("num_params", "num_tensors", "kept_bytes", "step", "is_grad_freed")
MOST_STEPS = 4

Moments = dict[str, int]


def moment_cases(seed: int) -> list[Case]:
    """First and later steps; gradients freed or set to zero; one tensor and several.

    The last have more bytes than a float counts.
    """
    rng = random.Random(seed)
    models = [(rng.randint(10, 99), 2, 4 * rng.randint(5, 60))]
    models.append((rng.randint(2, 9), 1, 4 * rng.randint(5, 60)))
    models.append((rng.randint(100, 999), rng.randint(3, 9), 4 * rng.randint(5, 400)))
    sizes = [(10, 2, 100, 1, True)]
    for model in models:
        for is_grad_freed in (True, False):
            for step in (1, 2, rng.randint(3, MOST_STEPS)):
                sizes.append((*model, step, is_grad_freed))
    huge = (2**52 + 2 * rng.randint(1, 999) + 1, 3, 4 * rng.randint(2**31, 2**32))
    sizes += [(*huge, MOST_STEPS, flag) for flag in (True, False)]
    return [named(MOMENTS_NAMES, each) for each in sizes]


@lru_cache
def _moments_traced(
    num_params: int, num_tensors: int, kept_bytes: int, is_freed: bool
) -> list[Moments]:
    """Moments of the first steps of a real training run.

    Its forward pass multiplies a weight with data of ``kept_bytes``, less two numbers: the loss and
    its gradient are live then too.
    """
    with fake_tensors():
        return _of_training(num_params, num_tensors, kept_bytes, is_freed)


def _of_training(
    num_params: int, num_tensors: int, kept_bytes: int, is_freed: bool
) -> list[Moments]:
    sizes = [num_params - num_tensors + 1] + [1] * (num_tensors - 1)
    weights = nn.ParameterList(torch.ones(size) for size in sizes)
    optimizer = AdamW(weights, foreach=False)

    def loss() -> Tensor:
        data = torch.ones(kept_bytes // 4 - 2)
        sums = [weight.sum() for weight in weights]
        return torch.stack([(weights[0][:1] * data).sum(), *sums]).sum()

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=is_freed)

    trace = trace_memory(step, weights, optimizer, num_steps=MOST_STEPS)
    live = [trace.total_bytes[0], *(phase.end_bytes for phase in trace.phases)]
    names = ("before_forward", "after_forward", "after_backward", "after_step")
    # Each step has three phases, so step n takes the entries 3 n to 3 n + 3. Its first entry is
    # the end of the step before.
    return [dict(zip(names, live[3 * n :], strict=False)) for n in range(MOST_STEPS)]


@declares_check(
    "u04-moments", moment_cases, fallback="course_utils.formulas.memory_over_time.live_at_moments"
)
def measured_moments(
    num_params: int, num_tensors: int, kept_bytes: int, step: int, is_grad_freed: bool
) -> Moments:
    """Live bytes at the end of each phase, from a trace of real training steps."""
    return _moments_traced(num_params, num_tensors, kept_bytes, is_grad_freed)[step - 1]


# === u04-peak
# The bytes live at the three moments where a training step can peak.


ID_BYTES = 8
TOKEN_COUNT_BYTES = 4

Peaks = dict[str, int]


def peak_cases(seed: int) -> list[Case]:
    """Tied and untied, MHA and GQA, one sequence and two, every way to compute AdamW."""
    rng = random.Random(seed)
    worked = {"num_layers": 1, "hidden_size": 4, "num_heads": 1, "ffn_size": 3, "vocab_size": 5}
    smallest = worked | {"is_tied": True}
    runs = [
        (smallest | {"vocab_size": rng.randint(5, 30)}, 2),
        (_random_sizes(rng, 2, False), rng.randint(2, 9)),
    ]
    for is_tied in (True, False):
        for group in (1, rng.randint(2, 3)):
            num_tokens = rng.randrange(3, 40, 2) if group == 1 else rng.randrange(4, 40, 2)
            runs.append((_random_sizes(rng, group, is_tied), num_tokens))
    runs.append((_random_sizes(rng, 1, True), rng.randint(40, 60)))
    cases = [_case(sizes, num_tokens, adamw) for sizes, num_tokens in runs for adamw in ADAMW]
    return [_case(smallest, 2, ADAMW[0]), *cases[1:]]


def _random_sizes(rng: random.Random, group: int, is_tied: bool) -> dict[str, Any]:
    """Sizes of a model of one layer, whose embedding is its largest matrix."""
    num_kv_heads, head_dim = rng.randint(1, 2), rng.choice((2, 4))
    return {
        "num_layers": 1,
        "hidden_size": num_kv_heads * group * head_dim,
        "num_heads": num_kv_heads * group,
        "num_kv_heads": num_kv_heads,
        "ffn_size": rng.randrange(5, 40, 2),
        "vocab_size": rng.randrange(61, 120, 2),
        "is_tied": is_tied,
    }


def _case(sizes: dict[str, Any], num_tokens: int, adamw: str) -> Case:
    model = model_of(sizes)
    num_params = sum(parameters(model).values())
    saved = sum(model_saved_bytes(model, _run(num_tokens)).values())
    # Temporary bytes in fp32: a loop makes two tensors as large as one weight, at most the largest;
    # foreach makes one number for each parameter; the fused kernel makes nothing.
    of_adamw = {"for-loop": 8 * _largest(model), "foreach": 4 * num_params, "fused": 0}
    return {
        "model": sizes,
        "num_params": num_params,
        # Ids and targets are there before the forward pass. The loss also keeps their number, but
        # tensors of a single number are left out of this exercise.
        "kept_bytes": saved - 2 * ID_BYTES * num_tokens - TOKEN_COUNT_BYTES,
        "num_tokens": num_tokens,
        "temporary_bytes": of_adamw[adamw],
    }


def _run(num_tokens: int) -> RunConfig:
    """One sequence, or two where the tokens can be halved."""
    num_sequences = 1 + (num_tokens % 2 == 0)
    return RunConfig(
        micro_batch_size=num_sequences,
        seq_len=num_tokens // num_sequences,
        precision=precision("fp32"),
        is_loss_fp32=True,
    )


def _largest(model: ModelConfig) -> int:
    """Numbers in the largest weight tensor."""
    width = max(model.vocab_size, model.ffn_size, model.num_heads * model.head_dim)
    return model.hidden_size * width


@lru_cache
def _peak_traced(model: ModelConfig, num_tokens: int) -> dict[str, Peaks]:
    """One step of three equal trainings, one for each way to compute AdamW, under one trace.

    All have their optimizer states; what the other two hold is subtracted.
    """
    trainings = [Training(model, _run(num_tokens), adamw=adamw) for adamw in ADAMW]
    for training in trainings:
        training.step()
    remaining = iter(trainings)
    owners = [each for training in trainings for each in training.owners]
    trace = trace_memory(lambda: next(remaining).step(), *owners, num_steps=len(trainings))
    trace = replace(trace, storages=tuple(each for each in trace.storages if each.shape))
    # All three hold the same when the trace begins, and again after their own step. A step has
    # three phases: backward and the optimizer's are the two from 3 * number + 1 on.
    of_others = trace.total_bytes[0] // len(ADAMW) * (len(ADAMW) - 1)
    return {
        adamw: {
            moment: live - of_others
            for moment, live in _moments(trace, *trace.phases[3 * number + 1 :][:2]).items()
        }
        for number, adamw in enumerate(ADAMW)
    }


def _moments(trace: MemoryTrace, backward: Phase, step: Phase) -> Peaks:
    """Live bytes at the logits' gradient, at backward's last allocation, at the step's peak."""
    made = [each for each in trace.storages if backward.start <= each.born < backward.stop]
    logits = next(each for each in made if each.operation == "_log_softmax_backward_data")
    return {
        "loss": trace.total_bytes[logits.born],
        "backward": trace.total_bytes[max(each.born for each in made)],
        "step": max(trace.total_bytes[step.start : step.stop]),
    }


@declares_check(
    "u04-peak", peak_cases, fallback="course_utils.formulas.memory_over_time.live_at_candidates"
)
def measured_peaks(
    model: dict[str, Any],
    num_params: int,
    kept_bytes: int,
    num_tokens: int,
    temporary_bytes: int,
) -> Peaks:
    """What a trace of real training shows, without tensors of a single number."""
    adamw = {0: "fused", 4 * num_params: "foreach"}.get(temporary_bytes, "for-loop")
    return _peak_traced(model_of(model), num_tokens)[adamw]
