"""Check of accumulation: gradients of the whole batch, at the price of one micro-batch."""

import math
import random
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks import wire
from course_utils.checks.check import Case, Check
from course_utils.checks.counted import num_different, tells_errors, undisturbed
from course_utils.checks.judges import Behaviour, Mistake
from course_utils.checks.u08.trials import (
    ROUNDING,
    batch_of,
    gradients_of,
    is_number,
    length_of,
    losses_of,
    model_of,
    num_targets,
    ragged,
)
from course_utils.instruments import count_saved_bytes, trace_memory
from course_utils.reference.accumulation import accumulate, sum_of_losses

SCENARIOS = (
    "equal",
    "ragged",
    "rest",
    "empty micro-batch",
    "no targets",
    "existing gradients",
    "memory",
)
FIELDS = ("scenario", "lengths", "micro_batch_size", "width", "vocab_size")

Run = Callable[..., Any]


def accumulate_cases(seed: int) -> list[Case]:
    """Every scenario three times; for memory, large activations and large weights."""
    rng = random.Random(seed)
    cases = []
    for number in range(3):
        length = rng.randint(4, 7)
        lengths_of: dict[str, tuple[list[int], int]] = {
            "equal": ([length] * 4, number % 2 + 1),
            "ragged": (ragged(rng, 6), number % 2 + 1),
            "rest": (ragged(rng, 5), number % 2 + 2),
            "empty micro-batch": (_with_empty(rng, number % 2 + 1), number % 2 + 1),
            "no targets": ([0] * (number + 2), number % 2 + 1),
            "existing gradients": ([length] * 4, number % 2 + 1),
        }
        for scenario, (lengths, size) in lengths_of.items():
            cases.append(_case(scenario, lengths, size, rng.randint(3, 5), rng.randint(7, 11)))
    for length, size in ((300, 1), (150, 2)):
        num_micro_batches = rng.randint(3, 5)
        cases.append(_case("memory", [length] * (num_micro_batches * size), size, 16, 5))
    cases.append(_case("memory", [2] * rng.randint(3, 5), 1, 48, 48))
    return [_case("rest", [3, 1, 2], 2, 3, 5), *cases]


def _with_empty(rng: random.Random, size: int) -> list[int]:
    """One micro-batch without targets among others."""
    lengths = ragged(rng, 2 * size)
    return [*lengths[:size], *[0] * size, *lengths[size:]]


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


class _Trial:
    """Model and batch of a case, with the sizes of all forward passes."""

    def __init__(
        self,
        scenario: str,
        lengths: list[int],
        micro_batch_size: int,
        width: int,
        vocab_size: int,
    ) -> None:
        self.model = model_of(width, vocab_size)
        self.ids, self.targets = batch_of(lengths, vocab_size)
        self.micro_batch_size = micro_batch_size
        self.sizes: list[int] = []
        self.before: list[Tensor | None] = [None for _ in self.model.parameters()]
        if scenario == "existing gradients":
            self.before = [torch.sin(each.detach()) for each in self.model.parameters()]
        for parameter, gradient in zip(self.model.parameters(), self.before, strict=True):
            parameter.grad = None if gradient is None else gradient.clone()

    def run(self, answer: Run) -> Any:
        return answer(self.model, self.ids, self.targets, self.micro_batch_size)

    def watched(self, answer: Run) -> Any:
        handle = self.model.register_forward_pre_hook(self._note)
        try:
            return self.run(answer)
        finally:
            handle.remove()

    def _note(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.sizes.append(len(inputs[0]))

    @property
    def num_passes_allowed(self) -> tuple[int, int]:
        """Micro-batches that have targets, and all of them."""
        parts = self.targets.split(self.micro_batch_size)
        return sum(num_targets(part) > 0 for part in parts), len(parts)

    def gradients(self) -> list[Tensor | None]:
        return [each.grad for each in self.model.parameters()]


@tells_errors
def probe(answer: Any, case: Case) -> object:
    """Loss, gradients and passes of the student's accumulation, and what it holds at its peak."""
    with undisturbed():
        trial = _Trial(**case)
        loss = trial.watched(answer)
        if not is_number(loss):
            raise TypeError(f"wanted a float, got {wire.describe(loss)}")
        gradients, (fewest, most) = trial.gradients(), trial.num_passes_allowed
        numbers = {"loss": float(loss), "gradient_length": length_of(gradients)}
        return {
            "not_numbers": int(any(map(math.isnan, numbers.values()))),
            **{name: 0.0 if math.isnan(each) else each for name, each in numbers.items()},
            "wrong_gradients": num_different(gradients, _wanted_gradients(*_key(case))),
            "sequences_too_many": max(0, max(trial.sizes, default=0) - trial.micro_batch_size),
            "passes_missing": max(0, fewest - len(trial.sizes)),
            "passes_too_many": max(0, len(trial.sizes) - most),
            **_held_too_much(answer, case),
        }


def _key(case: Case) -> tuple[Any, ...]:
    return tuple(tuple(each) if type(each) is list else each for each in case.values())


@lru_cache(maxsize=512)
def _whole(*key: Any) -> tuple[float, tuple[Tensor, ...]]:
    """Loss and gradients of the whole batch at once; zeros without targets."""
    trial = _Trial(**_case(*_listed(key)))
    losses = losses_of(trial.model, trial.ids, trial.targets)
    if not len(losses):
        return 0.0, tuple(torch.zeros_like(each) for each in trial.model.parameters())
    mean = losses.sum() / len(losses)
    return mean.item(), tuple(gradients_of(mean, trial.model))


def _listed(key: tuple[Any, ...]) -> list[Any]:
    return [list(each) if type(each) is tuple else each for each in key]


def _wanted_gradients(*key: Any) -> list[Tensor]:
    """Those of the whole batch, on top of what was there."""
    before = _Trial(**_case(*_listed(key))).before
    return _on_top(_whole(*key)[1], before)


def _on_top(gradients: Iterable[Tensor], before: Iterable[Tensor | None]) -> list[Tensor]:
    pairs = zip(gradients, before, strict=True)
    return [gradient if old is None else gradient + old for gradient, old in pairs]


def wanted(**case: Any) -> dict[str, int | float]:
    """Loss and gradients of the whole batch, and nothing too much."""
    return {
        "not_numbers": 0,
        "loss": _whole(*_key(case))[0],
        "gradient_length": length_of(_wanted_gradients(*_key(case))),
        "wrong_gradients": 0,
        "sequences_too_many": 0,
        "passes_missing": 0,
        "passes_too_many": 0,
        "micro_batches_held_too_many": 0,
        "gradients_held_too_many": 0,
    }


def _held_too_much(answer: Run, case: Case) -> dict[str, int]:
    """Bytes at the peak above the course's own, in micro-batches' activations or whole gradients.

    Rounded: a tensor or two that lives a line longer is nothing.
    """
    names = ("micro_batches_held_too_many", "gradients_held_too_many")
    if case["scenario"] != "memory":
        return dict.fromkeys(names, 0)
    extra = _peak_bytes(answer, **case) - _course_peak_bytes(*_key(case))
    sizes = _sizes(*_key(case))
    name, size = max(zip(names, sizes, strict=True), key=lambda pair: pair[1])
    return dict.fromkeys(names, 0) | {name: max(0, round(extra / size))}


def _peak_bytes(answer: Run, **case: Any) -> int:
    trial = _Trial(**case)
    return trace_memory(lambda: trial.run(answer), trial.model).peak_bytes


@lru_cache(maxsize=128)
def _course_peak_bytes(*key: Any) -> int:
    return _peak_bytes(accumulate, **_case(*_listed(key)))


@lru_cache(maxsize=128)
def _sizes(*key: Any) -> tuple[int, int]:
    """Bytes that one micro-batch keeps for backward, and those of all gradients."""
    trial = _Trial(**_case(*_listed(key)))
    ids, targets = (each[: trial.micro_batch_size] for each in (trial.ids, trial.targets))
    saved = count_saved_bytes(lambda: sum_of_losses(trial.model, ids, targets), trial.model)
    floats = (each for each in saved.tensors if each.dtype.is_floating_point)
    kept = sum(each.storage_bytes for each in floats)
    return kept, sum(each.nbytes for each in trial.model.parameters())


def _weighed(weigh: Callable[[Tensor, Tensor, int], float]) -> Callable[..., dict[str, float]]:
    """Loss and length of gradients if each micro-batch is weighed otherwise.

    Args:
        weigh: From the targets of a micro-batch, those of the batch, and the number of
            micro-batches to the factor of the sum of its losses.
    """

    @lru_cache(maxsize=512)
    def made(*key: Any) -> dict[str, float]:
        trial = _Trial(**_case(*_listed(key)))
        ids, targets = (each.split(trial.micro_batch_size) for each in (trial.ids, trial.targets))
        try:
            factors = [weigh(some, trial.targets, len(targets)) for some in targets]
        except ZeroDivisionError:
            return {"not_numbers": 1}
        parts = zip(ids, targets, factors, strict=True)
        losses = [losses_of(trial.model, x, t).sum() * factor for x, t, factor in parts]
        loss = torch.stack(losses).sum()
        gradients = _on_top(gradients_of(loss, trial.model), trial.before)
        return {"loss": loss.item(), "gradient_length": length_of(gradients)}

    return lambda *values: made(*_key(_case(*values)))


def _some_alone(
    chosen: Callable[[int, int], slice], *, is_new: bool = False
) -> Callable[..., dict[str, float]]:
    """Loss and length of gradients if only some sequences count, of all and a micro-batch's."""

    @lru_cache(maxsize=512)
    def made(*key: Any) -> dict[str, float]:
        trial = _Trial(**_case(*_listed(key)))
        some = chosen(len(trial.ids), trial.micro_batch_size)
        losses = losses_of(trial.model, trial.ids[some], trial.targets[some])
        loss = losses.sum() / max(1, num_targets(trial.targets))
        before = [None for _ in trial.before] if is_new else trial.before
        gradients = _on_top(gradients_of(loss, trial.model), before)
        return {"loss": loss.item(), "gradient_length": length_of(gradients)}

    return lambda *values: made(*_key(_case(*values)))


def _in(
    scenario: str, formula: Callable[..., dict[str, Any]], *names: str
) -> Callable[..., dict[str, Any]]:
    """A mistake that shows in one scenario, in the numbers of some names."""
    return lambda *values: (
        {name: each for name, each in formula(*values).items() if not names or name in names}
        if values[0] == scenario
        else {}
    )


def _last(num_sequences: int, size: int) -> slice:
    return slice((num_sequences - 1) // size * size, num_sequences)


def _full(num_sequences: int, size: int) -> slice:
    return slice(0, num_sequences // size * size)


def _all(num_sequences: int, size: int) -> slice:
    return slice(0, num_sequences)


def _mean_weighed_by_sequences(some: Tensor, targets: Tensor, num_parts: int) -> float:
    return len(some) / len(targets) / num_targets(some)


def _only(name: str, formula: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda *values: {name: formula(*values).get(name, math.nan)}


def _num_micro_batches(*values: Any) -> int:
    return -(-len(values[1]) // int(values[2]))


def _gradients_of_all(more: int) -> Mistake:
    return Mistake(
        "A set of all gradients is held for each micro-batch. Who adds new gradients to those that "
        "are there, if you let it?",
        lambda *values: {"gradients_held_too_many": _num_micro_batches(*values) + more},
    )


ACCUMULATE = Check(
    cases=accumulate_cases,
    reference=accumulate,
    probe=probe,
    judge=Behaviour(
        wanted,
        Mistake(
            "More sequences go through the model at once than a micro-batch has. Which tensors do "
            "you cut before they go in?",
            lambda *values: {"sequences_too_many": len(values[1]) - values[2]},
        ),
        Mistake(
            "Without any target the loss or a gradient is not a number. What do you divide by "
            "then, and what does the card want?",
            _in("no targets", lambda *values: {"not_numbers": 1}),
        ),
        Mistake(
            "This is the mean of the micro-batches' means: right where all have as many targets, "
            "wrong elsewhere, and not a number where one has none. What is the mean of all "
            "targets divided by?",
            _weighed(lambda some, every, num_parts: 1 / (num_targets(some) * num_parts)),
        ),
        Mistake(
            "This is the sum of the micro-batches' means. When is a mean of all targets a sum of "
            "means, and what would each have to be multiplied by?",
            _weighed(lambda some, every, num_parts: 1 / num_targets(some)),
        ),
        Mistake(
            "You weigh the mean of a micro-batch by its sequences. What is it a mean of?",
            _weighed(_mean_weighed_by_sequences),
        ),
        Mistake(
            "This is the sum over all targets. Which mean does the card ask for?",
            _weighed(lambda some, every, num_parts: 1),
        ),
        Mistake(
            "You divide the sum of the losses by the sequences of the batch. How many losses were "
            "added up?",
            _weighed(lambda some, every, num_parts: 1 / len(every)),
        ),
        Mistake(
            "You divide by all positions of the batch, filled up ones too. Which of them have a "
            "loss?",
            _weighed(lambda some, every, num_parts: 1 / every.numel()),
        ),
        Mistake(
            "You divide the sum of the losses by the number of micro-batches. How many losses "
            "were added up?",
            _weighed(lambda some, every, num_parts: 1 / num_parts),
        ),
        Mistake(
            "The sequences that fill no micro-batch are left out. Where does your last cut end?",
            _in("rest", _some_alone(_full), "loss", "gradient_length"),
        ),
        Mistake(
            "Only the gradients of the last micro-batch are there. Who throws away those of the "
            "others?",
            _only("gradient_length", _some_alone(_last, is_new=True)),
        ),
        Mistake(
            "Gradients that were there before are gone. Who may set them to zero, your function "
            "or the one who calls it?",
            _in("existing gradients", _some_alone(_all, is_new=True), "gradient_length"),
        ),
        Mistake(
            "The gradients are right, and the loss is that of the last micro-batch. Where do you "
            "add the others?",
            _only("loss", _some_alone(_last)),
        ),
        Mistake(
            "The activations of all micro-batches are held at once, as those of the whole batch "
            "would be. When does backward go through each of them, and does it let go of them?",
            lambda *values: {"micro_batches_held_too_many": _num_micro_batches(*values) - 1},
        ),
        Mistake(
            "The activations of a micro-batch are still there while the next one runs. What do "
            "you tell backward, and what lives on between two rounds of your loop?",
            lambda *values: {"micro_batches_held_too_many": 1},
        ),
        Mistake(
            "A second set of all gradients is held. Who adds new gradients to those that are "
            "there, if you let it?",
            lambda *values: {"gradients_held_too_many": 1},
        ),
        *(_gradients_of_all(more) for more in (0, -1, 1)),
        Mistake(
            "A micro-batch goes through the model more often than once. What do you need from the "
            "first time?",
            lambda *values: {"passes_too_many": _num_micro_batches(*values)},
        ),
        scenarios=SCENARIOS,
        relative_tolerance=ROUNDING,
    ),
)
