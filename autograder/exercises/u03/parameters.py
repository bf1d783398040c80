"""Check of a model's parameters, part by part."""

import random
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u03.shared.counters import COUNTERS, just_above
from course_utils.reference import Transformer

GPT = {"is_gated": False, "has_biases": True, "is_tied": True}
NAMES = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "ffn_size", "vocab_size")


def parameters_cases(seed: int) -> list[Case]:
    """GPT with and without learned positions; Llama with MHA, GQA and MQA; both tied and untied.

    Biases occur in gated blocks too, and heads that are together wider or narrower than the model.
    The last counts are beyond a float.
    """
    rng = random.Random(seed)
    models = [_named(2, 4, 2, 1, 3, 5) | {"is_tied": False}]  # the worked one
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for is_tied in (True, False):
            models += [_sizes(rng, kv, group) | {"is_tied": is_tied} for _ in range(2)]
    models += [_sizes(rng, 2, 2) | {"is_tied": False, "head_dim": 16}]
    models += [_sizes(rng, 2, 3) | GPT | {"head_dim": 2}]
    for num_positions in (0, rng.randint(5, 99), rng.randint(100, 999)):
        for kv in (1, rng.randint(2, 5)):
            others = {"num_positions": num_positions, "is_tied": kv == 1}
            models += [_sizes(rng, kv, 1) | GPT | others]
    for kv in (1, rng.randint(2, 5)):
        models += [_sizes(rng, kv, 2) | {"has_biases": True, "is_tied": False}]
    gpt_2 = _named(rng.randint(2, 99), 768, 12, 12, 3072, 50257)
    llama_1b = _named(rng.randint(2, 99), 2048, 32, 8, 8192, 128256)
    models += [gpt_2 | GPT | {"num_positions": 1024}, llama_1b | {"is_tied": True}]
    huge = [just_above(28, rng) for _ in range(3)]
    models += [_named(2, 3 * huge[0], 3, 1, *huge[1:]) | {"is_tied": False}]
    return [{"model": model} for model in models]


def _sizes(rng: random.Random, kv: int, group: int) -> dict[str, Any]:
    hidden_size = kv * group * rng.choice((4, 8, 12))
    return _named(
        *(rng.randint(2, 4), hidden_size, kv * group, kv),
        *(rng.randrange(5, 99, 2), rng.randrange(11, 999, 2)),
    )


def _named(*sizes: int) -> dict[str, Any]:
    return dict(zip(NAMES, sizes, strict=True))


def measured_parameters(model: dict[str, Any]) -> dict[str, int]:
    """The numbers in the tensors of a model on the meta device, by module."""
    counts = {"attention": 0, "feed_forward": 0, "norms": 0, "embedding_and_head": 0}
    for name, weight in Transformer(model_of(model), device="meta").named_parameters():
        counts[_part_of(name)] += weight.numel()
    return counts


def _part_of(name: str) -> str:
    if "norm" in name:
        return "norms"
    if ".attention." in name:
        return "attention"
    return "feed_forward" if ".ffn." in name else "embedding_and_head"


CHECK = Check(
    cases=parameters_cases,
    judge=EqualTo(measured_parameters, *mistakes_of("u03-parameters")),
    fallback="course_utils.formulas.parameters.parameters_by_part",
    answers=COUNTERS,
)
