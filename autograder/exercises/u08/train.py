"""Check of a training loop over groups of micro-batches: steps, weights, and what it reports."""

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from autograder.checking import borrowed_code, plain_data
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, undisturbed
from autograder.exercises.u08.shared.ragged_batches import kept_bytes, times_too_much
from autograder.exercises.u08.shared.training_runs import (
    FIELDS,
    SCENARIOS,
    TOLERANCE,
    WRONG_LOOPS,
    Run,
    Trial,
    case_of,
    is_long,
    oracle,
    train_cases,
    train_key,
    wrong_loop,
)
from course_utils.reference.accumulation import train


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Steps, weights and report of the student's loop."""
    with undisturbed():
        trial = Trial(**case)
        results = trial.run(answer)
    if type(results) is not list:
        raise TypeError(
            f"wanted a list with an entry for each group, got {plain_data.describe(results)}"
        )
    right = oracle(*train_key(case))
    pairs = zip(results, right.results, strict=False)  # entries that both lists have
    return {
        **trial.numbers(right),
        "wrong_weights": _num_wrong_weights(trial, right),
        "results": len(results),
        "wrong_results": sum(not _is_same(*pair) for pair in pairs),
        "sequences_too_many": _sequences_too_many(trial),
        "micro_batches_held_too_many": _held_too_many(answer, case),
    }


def _num_wrong_weights(trial: Trial, right: Trial) -> int:
    pairs = zip(trial.weights(), right.weights(), strict=True)
    return sum(not torch.allclose(a, b, rtol=0, atol=TOLERANCE / 100) for a, b in pairs)


def _is_same(got: Any, wanted_result: float | None) -> bool:
    if wanted_result is None or type(got) not in (int, float):
        return got is None and wanted_result is None
    return math.isclose(got, wanted_result, rel_tol=TOLERANCE)


def _sequences_too_many(trial: Trial) -> int:
    """In the largest forward pass, above the largest micro-batch; in one scenario only."""
    if trial.case["scenario"] != "accumulation":
        return 0
    return max(0, max(trial.sizes, default=0) - max(map(len, trial.case["lengths"])))


def _held_too_many(answer: Run, case: Case) -> int:
    """Bytes at the peak above the reference's, in activations of one micro-batch."""
    if not is_long(case["lengths"]):
        return 0
    with undisturbed():
        extra = Trial(**case).peak_bytes(answer) - _reference_peak_bytes(*train_key(case))
    trial = Trial(**case)
    return times_too_much(extra, kept_bytes(trial.model, *trial.batches[0]))


@lru_cache(maxsize=64)
def _reference_peak_bytes(*key: Any) -> int:
    return Trial(**case_of(*key)).peak_bytes(train)


def wanted(**case: Any) -> dict[str, int | float]:
    """Steps, weights and report of the oracle."""
    right = oracle(*train_key(case))
    return {
        **right.numbers(right),
        "wrong_weights": 0,
        "results": len(right.groups()),
        "wrong_results": 0,
        "sequences_too_many": 0,
        "micro_batches_held_too_many": 0,
    }


def _as_loop(name: str) -> Callable[..., dict[str, int | float]]:
    """What a known wrong loop gives."""
    return lambda *values: _numbers_of_loop(name, *_key(*values))


@lru_cache(maxsize=2048)
def _numbers_of_loop(name: str, *key: Any) -> dict[str, int | float]:
    trial = Trial(**case_of(*key))
    with undisturbed(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial.run(wrong_loop(**WRONG_LOOPS[name]))
    numbers = trial.numbers(oracle(*key))
    return {"not_numbers": 1} if numbers["not_numbers"] else numbers


def _key(*values: Any) -> tuple[Any, ...]:
    return train_key(dict(zip(FIELDS, values, strict=True)))


def _num_groups(*values: Any) -> int:
    return -(-len(values[1]) // int(values[2]))


def _num_steps(*values: Any, at_least: int = 1) -> int:
    """Groups that make a step, of those with at least some number of micro-batches."""
    trial = oracle(*_key(*values))
    pairs = zip(trial.groups(), trial.results, strict=True)
    return sum(len(group) >= at_least and type(result) is float for group, result in pairs)


def _in_scenario(
    scenario: str, formula: Callable[..., dict[str, Any]]
) -> Callable[..., dict[str, Any]]:
    """A mistake that is looked for in one scenario only, since each one costs another training."""
    return lambda *values: formula(*values) if values[0] == scenario else {}


def _by_kind(formulas: dict[str, Callable[..., dict[str, Any]]]) -> Callable[..., dict[str, Any]]:
    """A mistake that shows where a group can make no step, by the kind of its trouble."""
    return lambda *values: formulas[values[5]](*values) if values[5] in formulas else {}


def _all_step(*values: Any) -> dict[str, int]:
    return {"steps": _num_groups(*values)}


def _breaks(*values: Any) -> dict[str, int]:
    return {"not_numbers": 1}


def _ends_early(*values: Any) -> dict[str, int]:
    return {"steps": 1, "schedule_steps": 1}


def _all_joined(*values: Any) -> dict[str, int]:
    group = values[1][: values[2]]
    return {"sequences_too_many": sum(map(len, group)) - len(group[0])}


CHECK = Check(
    cases=train_cases,
    reference=train,
    observe_runs_reference=True,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "A group without targets makes a step of the optimizer. What can it have learnt?",
            _by_kind({"targets": _all_step}),
        ),
        Mistake(
            "A group makes a step though its loss is not finite: its gradient happens to be. "
            "Which two numbers have to be?",
            _by_kind({"targets": _all_step, "loss": _all_step}),
        ),
        Mistake(
            "The loss is finite, and the gradient that goes into the weights is not. Which two "
            "numbers have to be?",
            _by_kind({"gradient": _breaks}),
        ),
        Mistake(
            "A group makes a step though its loss or its gradient is not finite, and the weights "
            "stay broken. What do you look at before the optimizer steps?",
            _by_kind({"targets": _all_step, "loss": _all_step, "gradient": _breaks}),
        ),
        Mistake(
            "The group that makes no step is the last that you look at. What happens to those "
            "after it?",
            _by_kind(dict.fromkeys(("targets", "loss", "gradient"), _ends_early)),
        ),
        Mistake(
            "The optimizer steps after every micro-batch. What is a step made of here?",
            lambda *values: {"steps": len(values[1])},
        ),
        Mistake(
            "What is wrong comes after a group that made no step. What of it is left in the "
            "gradients when the next one begins?",
            _in_scenario("no step", _as_loop("zero after a step")),
        ),
        Mistake(
            "The first step is wrong where gradients were there before you began. When do you set "
            "them to zero for the first time?",
            _in_scenario("old gradients", _as_loop("zero after a group")),
        ),
        Mistake(
            "The last group has fewer micro-batches, and no step is made with it. Why throw it "
            "away?",
            _in_scenario("last group", lambda *values: {"steps": _num_groups(*values) - 1}),
        ),
        Mistake(
            "The scheduler advances with every micro-batch. In what does it count, and how soon "
            "is the learning rate at its end?",
            lambda *values: {"schedule_steps": len(values[1])},
        ),
        Mistake(
            "The scheduler never advances. Where does the learning rate change?",
            lambda *values: {"schedule_steps": 0},
        ),
        Mistake(
            "The scheduler also advances with groups that make no step. In what does it count?",
            lambda *values: {"schedule_steps": _num_groups(*values)},
        ),
        Mistake(
            "The learning rate of each step is already that of the next. Who goes first, the "
            "optimizer or the scheduler?",
            _in_scenario("schedule", _as_loop("schedule first")),
        ),
        Mistake(
            "Every micro-batch counts the same in a group, and its targets differ. By what is the "
            "mean of all targets of a group divided?",
            _in_scenario("accumulation", _as_loop("mean of means")),
        ),
        Mistake(
            "The means of the micro-batches are added up. What is a mean of all targets of the "
            "group instead?",
            _in_scenario("accumulation", _as_loop("sum of means")),
        ),
        Mistake(
            "The losses of all targets are added up, and the gradient grows with their number. "
            "Which mean does the exercise ask for?",
            _in_scenario("accumulation", _as_loop("sum")),
        ),
        Mistake(
            "You divide by all positions of the group, filled up ones too. Which of them have a "
            "loss?",
            _in_scenario("accumulation", _as_loop("all positions")),
        ),
        Mistake(
            "You divide by the targets of all groups. Whose loss goes into one step?",
            _in_scenario("accumulation", _as_loop("all groups")),
        ),
        Mistake(
            "The gradient is clipped after every micro-batch, before it is whole. When is it that "
            "of the group?",
            _in_scenario("clipping", _as_loop("clip each")),
        ),
        Mistake(
            "The gradient is clipped after every micro-batch, and once more at the end. What has "
            "the first clipping done to it by then?",
            _in_scenario("clipping", _as_loop("clip each and all")),
        ),
        Mistake(
            "Each tensor is clipped by itself, which turns the gradient. Of which vector is the "
            "norm?",
            _in_scenario("clipping", _as_loop("clip tensors")),
        ),
        Mistake(
            "The gradient is not clipped, or too late. What is its norm when the optimizer steps?",
            _in_scenario("clipping", _as_loop("no clip")),
        ),
        Mistake(
            "Every number of the gradient is clipped by itself, which turns it. What is to be no "
            "longer than the norm?",
            _in_scenario("clipping", _as_loop("clip values")),
        ),
        Mistake(
            "Only the last micro-batch of each group moves the weights. When do you set gradients "
            "to zero?",
            _in_scenario("accumulation", _as_loop("zero each")),
        ),
        Mistake(
            "The gradients of a group are still there in the next one. When do you set them to "
            "zero?",
            _in_scenario("accumulation", _as_loop("never zero")),
        ),
        Mistake(
            "The weights are right, and your list has not one entry for each group. What do you "
            "add for a group that makes no step?",
            lambda *values: {"results": _num_steps(*values)},
        ),
        Mistake(
            "The weights are right, and groups that make no step are not reported as the exercise "
            "wants it. What stands in the list for them?",
            _in_scenario(
                "no step",
                lambda *values: {"wrong_results": _num_groups(*values) - _num_steps(*values)},
            ),
        ),
        Mistake(
            "The weights are right, and you report the loss of the last micro-batch only. Where "
            "do you add the others?",
            lambda *values: {"wrong_results": _num_steps(*values, at_least=2)},
        ),
        Mistake(
            "The weights are right, and the losses that you report are not. Over which targets "
            "goes the mean of a group, and what type has it?",
            lambda *values: {"wrong_results": _num_steps(*values)},
        ),
        Mistake(
            "All micro-batches of a group go through the model as one batch, with all their "
            "activations. Why does the exercise hand it to you in pieces?",
            _all_joined,
        ),
        Mistake(
            "The activations of all micro-batches of a group are held at once. When does backward "
            "go through each of them, and does it let go of them?",
            lambda *values: {"micro_batches_held_too_many": values[2] - 1},
        ),
        Mistake(
            "The activations of a micro-batch are still there while the next one runs. What do "
            "you tell backward, and what lives on between two rounds of your loop?",
            lambda *values: {"micro_batches_held_too_many": 1},
        ),
        scenarios=SCENARIOS,
        relative_tolerance=TOLERANCE,
    ),
    allowed_names=borrowed_code.TOKEN_LOSS,
)
