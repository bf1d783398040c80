"""Check of the bytes live at the three moments where a training step can peak."""

import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.configs import ModelConfig, RunConfig, precision
from course_utils.formulas.activations import model_saved_bytes
from course_utils.formulas.parameters import parameters
from course_utils.instruments import MemoryTrace, Phase, trace_memory
from course_utils.reference import Training
from course_utils.reference.training import ADAMW

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
    of_adamw = {"for-loop": 8 * _largest(model), "foreach": 4 * num_params, "fused": 0}
    return {
        "model": sizes,
        "num_params": num_params,
        # ids and targets are there before the forward pass; the loss keeps how many there were
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


def measured_peaks(
    model: dict[str, Any],
    num_params: int,
    kept_bytes: int,
    num_tokens: int,
    temporary_bytes: int,
) -> Peaks:
    """What a trace of real training shows, without tensors of a single number."""
    adamw = {0: "fused", 4 * num_params: "foreach"}.get(temporary_bytes, "for-loop")
    return _traced(model_of(model), num_tokens)[adamw]


@lru_cache
def _traced(model: ModelConfig, num_tokens: int) -> dict[str, Peaks]:
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


# After the widths, those that go wrong at fewer moments are asked about first.
CHECK = Check(
    cases=peak_cases,
    judge=EqualTo(
        measured_peaks,
        *mistakes_of("u04-peak"),
    ),
    fallback="course_utils.formulas.memory_over_time.live_at_candidates",
)
