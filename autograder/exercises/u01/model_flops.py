"""Check of the FLOPs of a whole model."""

from collections.abc import Callable
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared.counts import counted_model, model_cases
from course_utils.configs import ModelConfig
from course_utils.formulas import flops


def measured_model_flops(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    """The forward pass of the whole model, from token ids to logits, counted while it runs."""
    return counted_model(model, num_sequences, seq_len).forward_flops


def model_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> int:
    """The course's own answer, under the name that the exercise asks for."""
    return sum(flops.forward_flops(model, num_sequences, seq_len).values())


def _without(part: str) -> Callable[..., int]:
    """The FLOPs of all parts but one."""

    def formula(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
        parts = flops.forward_flops(model_of(model), num_sequences, seq_len)
        return sum(parts.values()) - parts[part]

    return formula


def _changed(**changes: Callable[[dict[str, Any]], int]) -> Callable[..., int]:
    """The FLOPs of a model with other sizes."""

    def formula(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
        changed = {name: make(model) for name, make in changes.items()}
        return model_flops(ModelConfig(**{**model, **changed}), num_sequences, seq_len)

    return formula


def _head_in_every_layer(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    parts = flops.forward_flops(model_of(model), num_sequences, seq_len)
    return sum(parts.values()) + (int(model["num_layers"]) - 1) * parts["head"]


def _head_of_untied_models_only(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    without = _without("head")(model, num_sequences, seq_len)
    whole = model_flops(model_of(model), num_sequences, seq_len)
    return without if model["is_tied"] else whole


def _linear_part_of_one_sequence(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    whole = flops.forward_flops(model_of(model), num_sequences, seq_len)
    one = flops.forward_flops(model_of(model), 1, seq_len)
    return sum(one.values()) - one["attention"] + whole["attention"]


def _embedding_as_product(model: dict[str, Any], num_sequences: int, seq_len: int) -> int:
    parts = flops.forward_flops(model_of(model), num_sequences, seq_len)
    return sum(parts.values()) + parts["head"]


CHECK = Check(
    cases=model_cases,
    reference=model_flops,
    judge=EqualTo(
        measured_model_flops,
        Mistake(
            "Your head comes and goes with `is_tied`. Are the logits of a tied model for free?",
            _head_of_untied_models_only,
        ),
        Mistake(
            "You count layers and head for one sequence, the attention core for all of them. How "
            "many tokens go through a matrix?",
            _linear_part_of_one_sequence,
        ),
        Mistake(
            "The output head is missing. How does a hidden state become logits over the "
            "vocabulary?",
            _without("head"),
        ),
        Mistake(
            "The output head stands in every layer. How often does a model compute logits?",
            _head_in_every_layer,
        ),
        Mistake(
            "You square the tokens of the whole batch. Does a token look at other sequences?",
            lambda model, b, s: model_flops(model_of(model), 1, b * s),
        ),
        Mistake(
            "The quadratic part is missing. What happens between queries and keys?",
            _without("attention"),
        ),
        Mistake(
            "You count keys and values as wide as queries. How many heads do they have?",
            _changed(num_kv_heads=lambda model: model["num_heads"]),
        ),
        Mistake(
            "The vocabulary is in your sum twice. Which tables with v rows are multiplied with, "
            "and which only looked up?",
            _embedding_as_product,
        ),
        Mistake(
            "That is one layer and the head. How many layers are there?",
            _changed(num_layers=lambda model: 1),
        ),
    ),
)
