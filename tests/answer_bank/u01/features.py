"""Kinds of cases that the exercises of unit 01 have for every seed."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import call
from autograder.exercises.model_answers import model_answer
from course_utils.configs import ModelConfig


def more_than_a_float_holds(exercise: str) -> Callable[[dict[str, Any]], bool]:
    """Whether all counts of a case lose digits as floats."""

    def is_large(case: dict[str, Any]) -> bool:
        right: Any = call(model_answer(exercise), case)
        counts = right.values() if isinstance(right, dict) else [right]
        return all(int(float(count)) != count for count in counts)

    return is_large


def beyond_64_bits(exercise: str) -> Callable[[dict[str, Any]], bool]:
    """Whether all counts of a case overflow an int64."""

    def is_large(case: dict[str, Any]) -> bool:
        right: Any = call(model_answer(exercise), case)
        return all(count >= 2**63 for count in (right.values() if type(right) is dict else [right]))

    return is_large


def large_counts(exercise: str) -> dict[str, Callable[[dict[str, Any]], bool]]:
    """The features of cases whose counts only a whole number of Python holds."""
    return {
        "more than a float holds": more_than_a_float_holds(exercise),
        "more than 64 bits hold": beyond_64_bits(exercise),
    }


def usual_head_dim(case: dict[str, Any]) -> int:
    """The width of a head if all of them together are as wide as the model."""
    return int(case["model"]["hidden_size"]) // int(case["model"]["num_heads"])


OWN_HEAD_DIM = {
    "wider heads": lambda case: case["model"].get("head_dim", 0) > usual_head_dim(case),
    "narrower heads": lambda case: 0 < case["model"].get("head_dim", 0) < usual_head_dim(case),
}


def _exact_crossover(case: dict[str, Any]) -> Fraction:
    """The length, with a fraction, at which core and rest are equal."""
    model = model_of(case["model"])
    width = model.num_heads * model.head_dim
    shared = 1 + Fraction(model.num_kv_heads, model.num_heads)
    return model.hidden_size * (shared + Fraction(3 * model.ffn_size, 2 * width))


def _crossovers_in_floats(model: ModelConfig) -> Iterator[float]:
    """The formula in floats, as people write it."""
    h, f, width = model.hidden_size, model.ffn_size, model.num_heads * model.head_dim
    shared = model.num_kv_heads / model.num_heads
    yield h * (1 + shared + 1.5 * f / width)
    yield h * (1 + shared) + 1.5 * f * h / width
    yield h + h * shared + 1.5 * h * (f / width)


FEATURES = {
    "u01-matmul-flops": {
        **large_counts("u01-matmul-flops"),
        "one row": lambda case: case["rows"] == 1 < case["inner"],
        "one inner entry": lambda case: case["inner"] == 1 < case["rows"],
        "one column": lambda case: case["columns"] == 1 < case["rows"],
        "square": lambda case: case["rows"] == case["inner"] == case["columns"] > 1,
        "odd sizes": lambda case: all(size % 2 for size in case.values()),
        "a real layer": lambda case: case["inner"] == 4096,
    },
    "u01-attention-flops": {
        **large_counts("u01-attention-flops"),
        "a share that no float holds": lambda c: (
            int(c["num_heads"] * c["head_dim"] * (c["num_kv_heads"] / c["num_heads"]))
            < c["num_kv_heads"] * c["head_dim"]
        ),
        "multi-head": lambda case: case["num_heads"] == case["num_kv_heads"],
        "grouped-query": lambda case: 1 < case["num_kv_heads"] < case["num_heads"],
        "multi-query": lambda case: 1 == case["num_kv_heads"] < case["num_heads"],
        "several sequences": lambda case: case["num_sequences"] > 1,
        "an odd length": lambda case: case["seq_len"] % 2 == 1,
        "one token": lambda case: case["seq_len"] == 1,
    },
    "u01-gated-mlp-flops": {
        **large_counts("u01-gated-mlp-flops"),
        "one token": lambda case: case["num_tokens"] == 1,
        "square": lambda case: case["hidden_size"] == case["ffn_size"],
        "a real layer": lambda case: case["hidden_size"] == 4096,
    },
    "u01-model-flops": {
        **OWN_HEAD_DIM,
        **large_counts("u01-model-flops"),
        "tied": lambda case: case["model"]["is_tied"],
        "untied head": lambda case: not case["model"]["is_tied"],
        "multi-head": lambda c: c["model"]["num_heads"] == c["model"]["num_kv_heads"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "grouped-query": lambda c: 1 < c["model"]["num_kv_heads"] < c["model"]["num_heads"],
        "several sequences": lambda case: case["num_sequences"] > 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
    "u01-stack-training-flops": {
        **large_counts("u01-stack-training-flops"),
        "all trained": lambda case: all(case["is_trained"]),
        "none trained": lambda case: not any(case["is_trained"]),
        "first frozen": lambda case: not case["is_trained"][0] and any(case["is_trained"]),
        "frozen above trained": lambda case: case["is_trained"][0] and not all(case["is_trained"]),
        "one layer": lambda case: len(case["is_trained"]) == 1,
        "trained before two frozen": lambda c: c["is_trained"] == [False, True, False, False],
        "frozen between trained": lambda c: c["is_trained"][:3] == [True, False, True],
    },
    "u01-crossover-length": {
        **OWN_HEAD_DIM,
        "a tie": lambda case: _exact_crossover(case).denominator == 1,
        "a tie that floats miss": lambda case: any(
            math.ceil(length) > _exact_crossover(case) == int(_exact_crossover(case))
            for length in _crossovers_in_floats(model_of(case["model"]))
        ),
        "hardly more than a whole length": lambda case: 0 < _exact_crossover(case) % 1 < 0.001,
        "beyond 10**7 tokens": lambda case: _exact_crossover(case) > 10**7,
        "a little more than a whole length": lambda case: 0 < _exact_crossover(case) % 1 < 0.5,
        "a little less than a whole length": lambda case: _exact_crossover(case) % 1 > 0.5,
        "multi-head": lambda c: c["model"]["num_heads"] == c["model"]["num_kv_heads"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "grouped-query": lambda c: 1 < c["model"]["num_kv_heads"] < c["model"]["num_heads"],
        "a real model": lambda c: c["model"]["hidden_size"] == 4096,
    },
    "u01-training-flops-per-token": {
        **large_counts("u01-training-flops-per-token"),
        "tied": lambda case: case["model"]["is_tied"],
        "several layers": lambda case: case["model"]["num_layers"] > 1,
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a head that its layers cannot share": lambda c: (
            6 * c["model"]["vocab_size"] * c["model"]["hidden_size"] % c["model"]["num_layers"] > 0
        ),
        "groups that 12 cannot be shared among": lambda c: (
            12 * c["model"]["num_kv_heads"] % c["model"]["num_heads"] > 0
        ),
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
    "u01-utilisation": {
        **OWN_HEAD_DIM,
        "tied": lambda case: case["model"]["is_tied"],
        "untied head": lambda case: not case["model"]["is_tied"],
        "a share of less than nine decimals": lambda case: case["tokens_per_second"] == 1,
        "an H100": lambda case: case["hardware"] == "H100-SXM",
        "an A100": lambda case: case["hardware"] == "A100-80",
    },
    "u01-budget-ratio": {
        **OWN_HEAD_DIM,
        "longer": lambda case: case["new_seq_len"] > case["old_seq_len"],
        "shorter": lambda case: case["new_seq_len"] < case["old_seq_len"],
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
    },
    "u01-latent-attention-flops": {
        **large_counts("u01-latent-attention-flops"),
        "one head": lambda case: case["model"]["num_heads"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "DeepSeek-V3": lambda case: case["model"]["hidden_size"] == 7168,
    },
    "u01-expert-parameters": {
        **large_counts("u01-expert-parameters"),
        "no shared expert": lambda case: case["num_shared_experts"] == 0,
        "shared experts": lambda case: case["num_shared_experts"] > 1,
        "one expert for a token": lambda case: case["experts_per_token"] == 1,
        "all experts for a token": lambda case: case["experts_per_token"] == case["num_experts"],
        "DeepSeek-V3": lambda case: case["hidden_size"] == 7168,
    },
}
