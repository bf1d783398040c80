"""Check of the FLOPs of longer sequences on a fixed budget of tokens."""

import random
from fractions import Fraction
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import NINE_DIGITS, EqualTo, Mistake
from autograder.exercises.u01.shared.counts import LLAMA_1B, SMALLEST, counted_model
from course_utils.configs import ModelConfig
from course_utils.formulas import flops


def budget_cases(seed: int) -> list[Case]:
    """Longer and shorter sequences; multi-head, grouped-query and multi-query attention."""
    rng = random.Random(seed)
    cases: list[Case] = [_case(SMALLEST, 2, 4)]
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for factor in (2, 4, rng.randint(5, 9)):
            for is_longer in (True, False):
                short = rng.randint(5, 40)
                lengths = (short, short * factor)[:: 1 if is_longer else -1]
                model = {
                    **{"num_layers": rng.randint(2, 4), "hidden_size": kv * group * 8},
                    **{"num_heads": kv * group, "num_kv_heads": kv},
                    **{"ffn_size": rng.randint(8, 99), "vocab_size": rng.randint(50, 999)},
                }
                cases.append(_case(model, *lengths))
    return [*cases, _case(LLAMA_1B, 4096, 8192), _case(LLAMA_1B, 8192, 4096)]


def _case(model: dict[str, Any], old_seq_len: int, new_seq_len: int) -> Case:
    return {"model": model, "old_seq_len": old_seq_len, "new_seq_len": new_seq_len}


def measured_budget_ratio(
    model: dict[str, Any], old_seq_len: int, new_seq_len: int
) -> dict[str, float]:
    """Forward and backward passes of one sequence of either length, counted while they run."""
    old, new = (sum(counted_model(model, 1, s)) for s in (old_seq_len, new_seq_len))
    return _ratios(old, new, old_seq_len, new_seq_len)


def _ratios(old: int, new: int, old_seq_len: int, new_seq_len: int) -> dict[str, float]:
    per_sequence = Fraction(new, old)
    return {
        "per_sequence": float(per_sequence),
        "whole_budget": float(per_sequence * Fraction(old_seq_len, new_seq_len)),
    }


def budget_ratio(model: ModelConfig, old_seq_len: int, new_seq_len: int) -> dict[str, float]:
    """The course's own answer: FLOPs per sequence, and how many sequences the budget holds."""
    old, new = (sum(flops.forward_flops(model, 1, s).values()) for s in (old_seq_len, new_seq_len))
    per_sequence = new / old
    return {
        "per_sequence": per_sequence,
        "whole_budget": per_sequence * old_seq_len / new_seq_len,
    }


def _right(model: dict[str, Any], old_seq_len: int, new_seq_len: int) -> dict[str, float]:
    return budget_ratio(model_of(model), old_seq_len, new_seq_len)


def _without_head(model: dict[str, Any], old_seq_len: int, new_seq_len: int) -> dict[str, float]:
    def layers_only(seq_len: int) -> int:
        parts = flops.forward_flops(model_of(model), 1, seq_len)
        return sum(parts.values()) - parts["head"]

    old, new = layers_only(old_seq_len), layers_only(new_seq_len)
    return _ratios(old, new, old_seq_len, new_seq_len)


CHECK = Check(
    cases=budget_cases,
    reference=budget_ratio,
    judge=EqualTo(
        measured_budget_ratio,
        Mistake(
            "The same tokens for the same FLOPs: then attention would be free. What does a token "
            "in a longer sequence do more often?",
            lambda model, old, new: {"whole_budget": 1.0},
        ),
        Mistake(
            "You multiply by the ratio of the lengths. When sequences become longer, does the "
            "budget hold more or fewer of them?",
            lambda model, old, new: {
                "whole_budget": _right(model, old, new)["per_sequence"] * new / old
            },
        ),
        Mistake(
            "Your two numbers are the same. How many sequences does the budget hold before "
            "and after?",
            lambda model, old, new: {"whole_budget": _right(model, old, new)["per_sequence"]},
        ),
        Mistake(
            "Your first number is about one token. How many tokens has a sequence, before and "
            "after?",
            lambda model, old, new: {
                "per_sequence": _right(model, old, new)["whole_budget"],
                "whole_budget": _right(model, old, new)["whole_budget"] * old / new,
            },
        ),
        Mistake(
            "You take only the number of tokens of a sequence. Which part of a token's FLOPs "
            "grows with the length?",
            lambda model, old, new: {"per_sequence": new / old, "whole_budget": 1.0},
        ),
        Mistake(
            "You let everything grow with the square of the length. Which parts of a layer do "
            "not look at other tokens?",
            lambda model, old, new: {"per_sequence": (new / old) ** 2, "whole_budget": new / old},
        ),
        Mistake(
            "You leave the output head out. Does a token of a longer sequence need no logits?",
            _without_head,
        ),
        Mistake(
            "Your ratios stand upside down. Which of the two lengths is the new one?",
            lambda model, old, new: {
                name: 1 / ratio for name, ratio in _right(model, old, new).items()
            },
        ),
        relative_tolerance=NINE_DIGITS,
    ),
)
