"""Check of the bytes of weights and cache that a step moves."""

import random
from typing import Any

import torch

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u02.shared.sizes import COUNTERS, just_above, small_model
from course_utils.instruments import MovedBytes, count_bytes, fake_tensors
from course_utils.reference import Transformer
from course_utils.reference.generation import Cache, hidden_states

PHASES = ("prefill", "decode", "train")
WORKED = {
    **{"num_layers": 1, "hidden_size": 4, "num_heads": 2, "num_kv_heads": 1, "head_dim": 2},
    **{"ffn_size": 5, "vocab_size": 50},
}


def step_cases(seed: int) -> list[Case]:
    """Every phase with one sequence and with several; own and shared keys, heads of any width.

    The last counts are beyond what a float holds, and none of their numbers is small.
    """
    rng = random.Random(seed)
    cases = [_case(WORKED, 2, 3, "decode")]
    for number in range(24):
        num_sequences = (1, rng.randint(2, 5))[number // 3 % 2]
        model = small_model(rng, number // 3)
        cases.append(_case(model, num_sequences, rng.randrange(3, 39, 2), PHASES[number % 3]))
    wide = WORKED | {
        **{"hidden_size": just_above(26, rng), "ffn_size": just_above(26, rng)},
        **{"num_heads": 64, "num_kv_heads": 32, "vocab_size": 997},
    }
    return [*cases, *(_case(wide, 9, 99, phase) for phase in PHASES)]


def _case(model: dict[str, Any], num_sequences: int, seq_len: int, phase: str) -> Case:
    return {
        **{"model": model, "num_sequences": num_sequences},
        **{"seq_len": seq_len, "phase": phase},
    }


def counted(model: dict[str, Any], num_sequences: int, seq_len: int, phase: str) -> dict[str, int]:
    """The same bytes, by whose storage they are, counted while the step runs on fake tensors."""
    with fake_tensors():
        moved, _ = moved_by(model, num_sequences, seq_len, phase)
    weights, cache = moved.of("weights"), moved.of("cache")
    if weights.written_bytes:
        raise RuntimeError(f"a step of {model} writes weights")
    return {
        "weights": weights.read_bytes,
        "cache_read": cache.read_bytes,
        "cache_written": cache.written_bytes,
    }


def moved_by(
    model: dict[str, Any], num_sequences: int, seq_len: int, phase: str
) -> tuple[MovedBytes, int]:
    """What a step moves, and the bytes of all weights and of the cache."""
    built = Transformer(model_of(model), dtype=torch.bfloat16)
    ids = torch.zeros(num_sequences, 1 if phase == "decode" else seq_len, dtype=torch.long)
    of_weights = sum(each.nbytes for each in built.parameters())
    if phase == "train":
        step = count_bytes(lambda: built(ids).sum().backward(), weights=built.parameters())
        return step, of_weights
    cache = Cache(built, num_sequences, seq_len + 1)
    cache.length = seq_len if phase == "decode" else 0
    with torch.no_grad():
        step = count_bytes(
            lambda: built.head(hidden_states(built, ids, cache)[:, -1]),
            weights=built.parameters(),
            cache=cache.tensors,
        )
    return step, of_weights + sum(each.nbytes for each in cache.tensors)


CHECK = Check(
    cases=step_cases,
    judge=EqualTo(
        counted,
        *mistakes_of("u02-step-bytes"),
        labels={
            "weights": "the bytes of weights",
            "cache_read": "the bytes read from the cache",
            "cache_written": "the bytes written to the cache",
        },
    ),
    fallback="course_utils.formulas.roofline.step_bytes",
    answers=COUNTERS,
)
