"""Check of accumulation: gradients of the whole batch, with the memory of one micro-batch."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from autograder.checking import borrowed_code, plain_data
from autograder.checking.exercise_check import Case, Check, case_key
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, num_different, undisturbed
from autograder.exercises.u08.shared.ragged_batches import (
    FEW_TOKENS,
    NUM_WEIGHTS,
    ROUNDING,
    SCENARIOS,
    Run,
    Trial,
    accumulate_cases,
    case_of,
    gradients_of,
    kept_bytes,
    length_of,
    losses_of,
    num_targets,
    times_too_much,
    trial_of,
    wanted_gradients,
    whole_batch,
)
from course_utils.reference.accumulation import accumulate


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Loss, gradients and passes of the student's accumulation, and its peak memory."""
    with undisturbed():
        trial = Trial(**case)
        loss = trial.run_monitored(answer)
        if type(loss) not in (int, float):
            raise TypeError(f"wanted a float, got {plain_data.describe(loss)}")
        gradients, (fewest, most) = trial.gradients(), trial.num_passes_allowed
        numbers = {"loss": float(loss), "gradient_length": length_of(gradients)}
        return {
            "not_numbers": int(any(map(math.isnan, numbers.values()))),
            **{name: 0.0 if math.isnan(each) else each for name, each in numbers.items()},
            "wrong_gradients": num_different(gradients, wanted_gradients(*case_key(case))),
            "gradients_of_nothing": 0 if fewest else _num_new(gradients, trial.before),
            "sequences_too_many": max(0, max(trial.sizes, default=0) - trial.micro_batch_size),
            "passes_missing": max(0, fewest - len(trial.sizes)),
            "passes_too_many": max(0, len(trial.sizes) - most),
            **_held_too_much(answer, case),
        }


def _num_new(gradients: Iterable[Tensor | None], before: Iterable[Tensor | None]) -> int:
    pairs = zip(gradients, before, strict=True)
    return sum(old is None and new is not None for new, old in pairs)


def wanted(**case: Any) -> dict[str, int | float]:
    """Loss and gradients of the whole batch, and nothing too much."""
    return {
        "not_numbers": 0,
        "loss": whole_batch(*case_key(case))[0],
        "gradient_length": length_of(wanted_gradients(*case_key(case))),
        "wrong_gradients": 0,
        "gradients_of_nothing": 0,
        "sequences_too_many": 0,
        "passes_missing": 0,
        "passes_too_many": 0,
        "micro_batches_held_too_many": 0,
        "gradients_held_too_many": 0,
    }


def _held_too_much(answer: Run, case: Case) -> dict[str, int]:
    """Bytes at the peak above the reference's: in micro-batches or in sets of gradients.

    The unit is the larger of the two, so that the other one disappears in the rounding.
    """
    names = ("micro_batches_held_too_many", "gradients_held_too_many")
    nothing = dict.fromkeys(names, 0)
    if case["scenario"] != "memory":
        return nothing
    extra = Trial(**case).peak_bytes(answer) - _reference_peak_bytes(*case_key(case))
    name, size = max(
        zip(names, _unit_bytes(*case_key(case)), strict=True), key=lambda pair: pair[1]
    )
    return nothing | {name: times_too_much(extra, size)}


@lru_cache(maxsize=128)
def _reference_peak_bytes(*key: Any) -> int:
    return trial_of(key).peak_bytes(accumulate)


@lru_cache(maxsize=128)
def _unit_bytes(*key: Any) -> tuple[int, int]:
    """Bytes that one micro-batch keeps for backward, and those of all gradients."""
    trial = trial_of(key)
    ids, targets = (each[: trial.micro_batch_size] for each in (trial.ids, trial.targets))
    kept = kept_bytes(trial.model, ids, targets)
    return kept, sum(each.nbytes for each in trial.model.parameters())


def _weighted(weight: Callable[[Tensor, Tensor, int], float]) -> Callable[..., dict[str, float]]:
    """Loss and length of gradients if each micro-batch has another weight.

    Args:
        weight: From the targets of a micro-batch, those of the batch, and the number of
            micro-batches to the factor of the sum of its losses.
    """
    return _with_factors(lambda every, parts: [weight(some, every, len(parts)) for some in parts])


def _with_factors(
    factors_of: Callable[[Tensor, Sequence[Tensor]], list[float]],
    factor_of_old: Callable[[Tensor], float] = lambda targets: 1,
) -> Callable[..., dict[str, float]]:
    """Loss and length of gradients from a factor for each micro-batch, and for old gradients."""

    def formula(*values: Any) -> dict[str, float]:
        targets, parts, losses, gradients, old = _parts(*case_key(case_of(*values)))
        try:
            factors = torch.tensor(factors_of(targets, parts), dtype=torch.float64)
            gradient = factors @ gradients + factor_of_old(targets) * old
        except ZeroDivisionError:
            return {"not_numbers": 1}
        return {"loss": (factors @ losses).item(), "gradient_length": gradient.norm().item()}

    return formula


@lru_cache(maxsize=512)
def _parts(*key: Any) -> tuple[Tensor, tuple[Tensor, ...], Tensor, Tensor, Tensor]:
    """All targets and each micro-batch's, its sum of losses, its gradient, and the old gradient."""
    trial = trial_of(key)
    ids, targets = (each.split(trial.micro_batch_size) for each in (trial.ids, trial.targets))
    sums = [losses_of(trial.model, *pair).sum() for pair in zip(ids, targets, strict=True)]
    rows = [_as_vector(gradients_of(each, trial.model)) for each in sums]
    pairs = zip(trial.before, trial.model.parameters(), strict=True)
    old = _as_vector([torch.zeros_like(p) if grad is None else grad for grad, p in pairs])
    return trial.targets, targets, torch.stack(sums).detach(), torch.stack(rows), old


def _as_vector(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([each.detach().flatten() for each in tensors])


def _one_over_targets(targets: Tensor) -> float:
    return 1 / max(1, num_targets(targets))


def _of_all(targets: Tensor, parts: Sequence[Tensor]) -> list[float]:
    return [_one_over_targets(targets)] * len(parts)


def _of_the_last(targets: Tensor, parts: Sequence[Tensor]) -> list[float]:
    return [0.0] * (len(parts) - 1) + [_one_over_targets(targets)]


def _of_full_ones(targets: Tensor, parts: Sequence[Tensor]) -> list[float]:
    is_full = [len(some) == len(parts[0]) for some in parts]
    return [_one_over_targets(targets) * each for each in is_full]


def _by_targets_so_far(targets: Tensor, parts: Sequence[Tensor]) -> list[float]:
    counts = itertools.accumulate(num_targets(some) for some in parts)
    return [1 / max(1, count) for count in counts]


def _in_scenario(
    scenario: str, formula: Callable[..., dict[str, Any]], *names: str
) -> Callable[..., dict[str, Any]]:
    """A mistake that shows in one scenario, in the numbers of some names."""
    return lambda *values: (
        {name: each for name, each in formula(*values).items() if not names or name in names}
        if values[0] == scenario
        else {}
    )


def _only(name: str, formula: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda *values: {name: formula(*values).get(name, math.nan)}


def _num_micro_batches(*values: Any) -> int:
    return -(-len(values[1]) // int(values[2]))


def _all_held(*values: Any) -> dict[str, int]:
    """Until the one backward ends; with large weights, a second set of gradients shows more."""
    if max(values[1]) == FEW_TOKENS:
        return {"gradients_held_too_many": 1}
    return {"micro_batches_held_too_many": _num_micro_batches(*values) - 1}


def _gradients_of_each_held(more: int) -> Mistake:
    return Mistake(
        "A set of all gradients is held for each micro-batch. Who adds new gradients to those that "
        "are there, if you let it?",
        lambda *values: {"gradients_held_too_many": _num_micro_batches(*values) + more},
    )


CHECK = Check(
    cases=accumulate_cases,
    reference=accumulate,
    observe_runs_reference=True,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "More sequences go through the model at once than a micro-batch has. Which tensors do "
            "you cut before they go in?",
            lambda *values: {"sequences_too_many": len(values[1]) - values[2]},
        ),
        Mistake(
            "Without any target the loss or a gradient is not a number. What do you divide by "
            "then, and what does the exercise want?",
            _in_scenario("no targets", lambda *values: {"not_numbers": 1}),
        ),
        Mistake(
            "One micro-batch without targets makes your loss not a number. What is the mean of no "
            "losses, and does a factor of zero mend it?",
            lambda *values: (
                {"not_numbers": 1} if values[0] in ("empty micro-batch", "no targets") else {}
            ),
        ),
        Mistake(
            "This is the mean of the micro-batches' means: right where all have as many targets, "
            "wrong elsewhere, and not a number where one has none. What is the mean of all "
            "targets divided by?",
            _weighted(lambda some, every, num_parts: 1 / (num_targets(some) * num_parts)),
        ),
        Mistake(
            "This is the sum of the micro-batches' means. When is a mean of all targets a sum of "
            "means, and what would each have to be multiplied by?",
            _weighted(lambda some, every, num_parts: 1 / num_targets(some)),
        ),
        Mistake(
            "You weigh the mean of a micro-batch by its sequences. What is it a mean of?",
            _weighted(lambda some, every, num_parts: len(some) / len(every) / num_targets(some)),
        ),
        Mistake(
            "This is the sum over all targets. Which mean does the exercise ask for?",
            _weighted(lambda some, every, num_parts: 1),
        ),
        Mistake(
            "You divide the sum of the losses by the sequences of the batch. How many losses were "
            "added up?",
            _weighted(lambda some, every, num_parts: 1 / len(every)),
        ),
        Mistake(
            "You divide by all positions of the batch, filled up ones too. Which of them have a "
            "loss?",
            _weighted(lambda some, every, num_parts: 1 / every.numel()),
        ),
        Mistake(
            "You divide the sum of the losses by the number of micro-batches. How many losses "
            "were added up?",
            _weighted(lambda some, every, num_parts: 1 / num_parts),
        ),
        Mistake(
            "You divide by the targets seen so far, so that early micro-batches count more. When "
            "do you know how many the batch has?",
            _with_factors(_by_targets_so_far),
        ),
        Mistake(
            "Targets that are the word 0 do not count with you. Which number marks what is not to "
            "be learnt?",
            _weighted(lambda some, every, num_parts: 1 / int((every > 0).sum())),
        ),
        Mistake(
            "Gradients that were there before come out smaller: you divide them with the new "
            "ones. What can you divide before it goes into the sum?",
            _with_factors(_of_all, _one_over_targets),
        ),
        Mistake(
            "The sequences that fill no micro-batch are left out. Where does your last cut end?",
            _in_scenario("rest", _with_factors(_of_full_ones), "loss", "gradient_length"),
        ),
        Mistake(
            "Only the gradients of the last micro-batch are there. Who throws away those of the "
            "others?",
            _only("gradient_length", _with_factors(_of_the_last, lambda targets: 0.0)),
        ),
        Mistake(
            "Gradients that were there before are gone. Who may set them to zero, your function "
            "or the one who calls it?",
            _only("gradient_length", _with_factors(_of_all, lambda targets: 0.0)),
        ),
        Mistake(
            "The gradients are right, and the loss is that of the last micro-batch. Where do you "
            "add the others?",
            _only("loss", _with_factors(_of_the_last)),
        ),
        Mistake(
            "A second set of all gradients is held. Who adds new gradients to those that are "
            "there, if you let it?",
            lambda *values: {"gradients_held_too_many": 1},
        ),
        Mistake(
            "The activations of all micro-batches are held at once, as those of the whole batch "
            "would be. When does backward go through each of them, and does it let go of them?",
            _all_held,
        ),
        Mistake(
            "The activations of a micro-batch are still there while the next one runs. What do "
            "you tell backward, and what lives on between two rounds of your loop?",
            lambda *values: {"micro_batches_held_too_many": 1},
        ),
        *(_gradients_of_each_held(more) for more in (0, -1, 1)),
        Mistake(
            "A batch without targets leaves gradients of zeros where there were none, and the next "
            "step of an optimizer takes them for gradients. What is there to do for such a batch?",
            lambda *values: {"gradients_of_nothing": NUM_WEIGHTS},
        ),
        Mistake(
            "One sequence after the other goes through the model, however many a micro-batch may "
            "have. Which argument have you not used?",
            lambda *values: {"passes_too_many": len(values[1]) - _num_micro_batches(*values)},
        ),
        Mistake(
            "A micro-batch goes through the model more often than once. What do you need from the "
            "first time?",
            lambda *values: {"passes_too_many": _num_micro_batches(*values)},
        ),
        scenarios=SCENARIOS,
        relative_tolerance=ROUNDING,
    ),
    allowed_names=borrowed_code.TOKEN_LOSS,
)
