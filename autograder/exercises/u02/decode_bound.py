"""Check of the tokens per second that decoding can reach."""

import random
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u02.shared.sizes import COUNTERS, LLAMA_8B
from autograder.exercises.u02.step_bytes import WORKED, moved_by
from course_utils.configs import device
from course_utils.formulas.parameters import parameters
from course_utils.instruments import fake_tensors

FOUR_LAYERS = LLAMA_8B | {"num_layers": 4}
NARROW = {
    **{"num_layers": 3, "hidden_size": 2048, "num_heads": 32, "num_kv_heads": 8},
    **{"ffn_size": 8192, "vocab_size": 128256},
}
MULTI_HEAD = NARROW | {"num_kv_heads": 32, "head_dim": 80}
MODELS = (FOUR_LAYERS, NARROW, MULTI_HEAD)
DEVICES = ("A100-80", "H100-SXM", "H200", "A100-40")


def bound_cases(seed: int) -> list[Case]:
    """Memory-bound and compute-bound; short and long contexts; caches that do not fit.

    Batches on both sides of what memory holds: one sequence more and two, which is what the
    embedding's room would take.
    """
    rng = random.Random(seed)
    cases = [_case(WORKED, "A100-80", 2, 3), _case(LLAMA_8B, "A100-80", 1, rng.randint(200, 300))]
    for model, name in ((FOUR_LAYERS, rng.choice(DEVICES)), (MULTI_HEAD, "A100-80")):
        context = _telling_context(rng, model, name)
        most = _most_sequences(model, name, context)
        cases += [_case(model, name, n, context) for n in (most, most + 1, most + 2, most + 14)]
    cases += [_case(NARROW, each, 1024, rng.randint(50, 70)) for each in DEVICES]
    for number in range(12):
        batch = (1, rng.randint(2, 16), rng.randint(17, 64))[number // 3 % 3]
        context = rng.choice((1, 255, 1000)) * rng.randint(1, 4)
        cases.append(_case(MODELS[number % 3], DEVICES[number % 4], batch, context))
    return [*cases, _case(MULTI_HEAD, "H100-SXM", rng.randint(300, 500), 32768)]


def _most_sequences(model: dict[str, Any], hardware: str, context: int) -> int:
    """How many sequences fit, each with its cache of the context and of the new token."""
    sizes = model_of(model)
    of_parameters = 2 * sum(parameters(sizes).values())
    cached = sizes.num_layers * sizes.num_kv_heads * sizes.head_dim * (context + 1)
    return (device(hardware).memory_bytes - of_parameters) // (2 * 2 * cached)


def _telling_context(rng: random.Random, model: dict[str, Any], hardware: str) -> int:
    """One that leaves no room for the new token of one sequence more."""
    while True:
        context = rng.randint(7000, 8192)
        if _most_sequences(model, hardware, context) < _most_sequences(
            model, hardware, context - 1
        ):
            return context


def _case(model: dict[str, Any], hardware: str, num_sequences: int, context: int) -> Case:
    return {
        **{"model": model, "hardware": hardware},
        **{"num_sequences": num_sequences, "context": context},
    }


def counted_rate(model: dict[str, Any], hardware: str, num_sequences: int, context: int) -> float:
    """From bytes and FLOPs that are counted while one step of decoding runs on fake tensors."""
    chip = device(hardware)
    with fake_tensors():
        moved, held_bytes = moved_by(model, num_sequences, context, "decode")
    if held_bytes > chip.memory_bytes:
        return 0.0
    num_bytes = sum(sum(moved.of(owner)) for owner in ("weights", "cache"))
    seconds = max(
        moved.flops / chip.dense_flops_per_second("bf16"),
        num_bytes / chip.bandwidth_bytes_per_second,
    )
    return num_sequences / seconds


CHECK = Check(
    cases=bound_cases,
    judge=EqualTo(counted_rate, *mistakes_of("u02-decode-bound"), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.roofline.decode_tokens_per_second",
    answers=COUNTERS,
)
