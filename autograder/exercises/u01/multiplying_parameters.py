"""Check of N in 6N: the parameters that multiply."""

from collections.abc import Callable
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared.counts import counted_core, counted_model, model_cases
from course_utils.configs import ModelConfig
from course_utils.formulas.parameters import parameters


def multiplying_cases(seed: int) -> list[Case]:
    """The models of the whole-model exercise."""
    return [{"model": case["model"]} for case in model_cases(seed)]


def measured_multiplying_parameters(model: dict[str, Any]) -> int:
    """Half of a token's counted forward FLOPs, those of the attention core left out."""
    sizes = model_of(model)
    whole = counted_model(model, 1, 2).forward_flops
    core = sizes.num_layers * counted_core(sizes, 2)
    return (whole - core) // (2 * 2)


def multiplying_parameters(model: ModelConfig) -> int:
    """The course's own answer: attention, feed-forward blocks and head; no lookup, no norm."""
    parts = parameters(model)
    head = model.vocab_size * model.hidden_size
    return parts["attention"] + parts["feed_forward"] + head


def _lecture_n(model: dict[str, Any]) -> int:
    """The parameters of a GPT: h v + L (12 h² + 13 h) + 2 h."""
    h, layers, v = model["hidden_size"], model["num_layers"], model["vocab_size"]
    return int(h * v + layers * (12 * h * h + 13 * h) + 2 * h)


def _sum_of(*parts: str, **changes: Callable[[dict[str, Any]], int]) -> Callable[..., int]:
    """Some parts of the untied model, with some sizes changed."""

    def formula(model: dict[str, Any]) -> int:
        changed = {name: make(model) for name, make in changes.items()}
        by_part = parameters(model_of({**model, "is_tied": False, **changed}))
        return sum(by_part[name] for name in parts)

    return formula


CHECK = Check(
    cases=multiplying_cases,
    reference=multiplying_parameters,
    judge=EqualTo(
        measured_multiplying_parameters,
        Mistake(
            "That is every parameter there is. Which of them does a token only look up, or "
            "multiply element by element?",
            lambda model: sum(parameters(model_of(model)).values()),
        ),
        Mistake(
            "You count embedding and head. Which of the two multiplies?",
            _sum_of("embedding", "attention", "feed_forward", "head"),
        ),
        Mistake(
            "The norms are in your sum. Is their weight a matrix?",
            _sum_of("attention", "feed_forward", "norms", "head"),
        ),
        Mistake(
            "Your head comes and goes with `is_tied`. Are the logits of a tied model for free?",
            lambda model: sum(
                parameters(model_of(model))[part] for part in ("attention", "feed_forward", "head")
            ),
        ),
        Mistake(
            "The head is missing. Where a matrix is shared with the embedding, does it multiply "
            "any less?",
            _sum_of("attention", "feed_forward"),
        ),
        Mistake(
            "You count keys and values as wide as queries. How many heads do they have?",
            _sum_of(
                *("attention", "feed_forward", "head"),
                num_kv_heads=lambda model: int(model["num_heads"]),
            ),
        ),
        Mistake(
            "12 h² for a layer is a GPT's. How wide is this model's feed-forward block, how many "
            "matrices has it, and how many heads have keys and values?",
            lambda model: (
                12 * model["num_layers"] * model["hidden_size"] ** 2
                + model["hidden_size"] * model["vocab_size"]
            ),
        ),
        Mistake(
            "Your feed-forward block has two matrices. How many does a gate add?",
            _sum_of("attention", "feed_forward", "head", is_gated=lambda model: False),
        ),
        Mistake(
            "That is the lecture's N, of a GPT with four times the width inside. How wide is this "
            "model's feed-forward block, and how many matrices has it?",
            _lecture_n,
        ),
    ),
)
