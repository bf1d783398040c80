"""Check of a training loop over groups of micro-batches: steps, weights, and what it reports."""

import math
import random
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from course_utils.checks import wire
from course_utils.checks.check import Case, Check
from course_utils.checks.counted import tells_errors, undisturbed
from course_utils.checks.judges import Behaviour, Mistake
from course_utils.checks.u08.loops import VARIANTS, wrong_loop
from course_utils.checks.u08.trials import (
    batch_of,
    is_number,
    length_of,
    losses_of,
    model_of,
    ragged,
)
from course_utils.reference.accumulation import NO_TARGETS, NOT_FINITE, train

SCENARIOS = ("ragged", "clipping", "schedule", "last group", "no targets", "not finite")
FIELDS = ("scenario", "lengths", "micro_batches_per_step", "max_norm", "broken", "kind")

WIDTH, VOCAB_SIZE = 4, 7
LEARNING_RATE, MOMENTUM = 0.3, 0.5
NO_CLIPPING = 1e9

# Clipping may add a millionth to the norm, as PyTorch's does, or not.
TOLERANCE = 1e-4

Run = Callable[..., Any]


def train_cases(seed: int) -> list[Case]:
    """Every scenario three times and more, with groups of two and three micro-batches."""
    rng = random.Random(seed)
    cases = [_case("ragged", [[3], [1], [2], [5]], 2)]
    for size in (2, 3, 2):
        full = [_micro_batches(rng, size) for _ in range(3)]
        joined = [each for group in full for each in group]
        cases.append(_case("ragged", joined, size))
        cases.append(_case("clipping", joined, size, max_norm=round(rng.uniform(0.02, 0.04), 3)))
        cases.append(_case("schedule", joined, size))
        cases.append(_case("last group", joined[: -size + 1], size))
        empty = [[0] * len(joined[0])] * size
        cases.append(_case("no targets", [*joined[:size], *empty, *joined[size:]], size))
        for kind in ("loss", "gradient"):
            broken = rng.randrange(size, 2 * size)
            cases.append(_case("not finite", joined, size, broken=broken, kind=kind))
    return cases


def _micro_batches(rng: random.Random, count: int) -> list[list[int]]:
    """Lengths of each micro-batch of a group, two sequences each."""
    lengths = ragged(rng, 2 * count)
    return [lengths[2 * n : 2 * n + 2] for n in range(count)]


def _case(scenario: str, lengths: list[list[int]], size: int, **others: float | str) -> Case:
    """A case; nothing is clipped or broken in it unless it is said."""
    values = (scenario, lengths, size, NO_CLIPPING, -1, "")
    return dict(zip(FIELDS, values, strict=True)) | others


class _Breaking(nn.Module):
    """A model that breaks on the words that are too much: in its loss, or in its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = model_of(WIDTH, VOCAB_SIZE)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.layers(ids % VOCAB_SIZE)
        if bool((ids == VOCAB_SIZE).any()):  # the loss of word 0 is infinite, its gradient finite
            is_first = torch.arange(VOCAB_SIZE) == 0
            logits = logits.masked_fill(is_first, -math.inf)
        if bool((ids == VOCAB_SIZE + 1).any()) and logits.requires_grad:
            logits.register_hook(lambda grad: grad * math.inf)
        return logits


class Trial:
    """Model, optimizer, scheduler and micro-batches of a case, made anew and always the same.

    Attributes:
        num_steps: Steps of the optimizer so far.
        results: What the course's own step gave for each group.
    """

    def __init__(self, **case: Any) -> None:
        """Build all that a training loop is given."""
        self.case = case
        self.model = _Breaking()
        self.start = [each.detach().clone() for each in self.model.parameters()]
        self.optimizer = SGD(
            self.model.parameters(), LEARNING_RATE, momentum=MOMENTUM, foreach=False
        )
        self.optimizer.register_step_post_hook(self._note)
        self.num_steps = 0
        self.results: tuple[float | str, ...] = ()
        self.scheduler = LambdaLR(self.optimizer, self.factor)
        self.batches = [batch_of(lengths, VOCAB_SIZE) for lengths in case["lengths"]]
        if case["broken"] >= 0:
            ids, targets = self.batches[case["broken"]]
            ids[0, 0] = VOCAB_SIZE + (case["kind"] == "gradient")
            targets[0, 0] = 0

    def _note(self, *_: Any) -> None:
        self.num_steps += 1

    def factor(self, step: int) -> float:
        """Of the learning rate; it falls, but where a scenario is about something else."""
        is_falling = self.case["scenario"] in ("schedule", "no targets", "not finite")
        return 1 / (1 + step) if is_falling else 1.0

    @property
    def num_schedule_steps(self) -> int:
        """Its first is taken when it is made."""
        return int(self.scheduler.last_epoch)

    def run(self, loop: Run) -> Any:
        """What a loop returns for model, optimizer, scheduler, batches, group and norm."""
        size, max_norm = self.case["micro_batches_per_step"], self.case["max_norm"]
        given = (self.model, self.optimizer, self.scheduler, self.batches, size, max_norm)
        return loop(*given)

    def weights(self) -> list[Tensor]:
        """As they are now."""
        return [each.detach() for each in self.model.parameters()]

    def moved(self) -> float:
        """How far all weights together are from where they were."""
        pairs = zip(self.weights(), self.start, strict=True)
        return length_of([now - then for now, then in pairs])

    def groups(self) -> list[list[tuple[Tensor, Tensor]]]:
        """Micro-batches of each step."""
        size = self.case["micro_batches_per_step"]
        starts = range(0, len(self.batches), size)
        return [self.batches[start : start + size] for start in starts]


@tells_errors
def probe(answer: Any, case: Case) -> object:
    """Steps, weights and report of the student's loop."""
    with undisturbed():
        trial = Trial(**case)
        results = trial.run(answer)
    if type(results) is not list:
        raise TypeError(f"wanted a list with an entry for each group, got {wire.describe(results)}")
    moved = trial.moved()
    return {
        "not_numbers": int(not math.isfinite(moved)),
        "steps": trial.num_steps,
        "schedule_steps": trial.num_schedule_steps,
        "weights_moved": moved if math.isfinite(moved) else 0.0,
        "wrong_weights": _num_far(trial.weights(), _twin(*_key(case)).weights()),
        "results": len(results),
        "wrong_results": _num_wrong(results, _twin(*_key(case)).results),
    }


def _num_far(ours: list[Tensor], theirs: list[Tensor]) -> int:
    pairs = zip(ours, theirs, strict=True)
    return sum(not torch.allclose(a, b, rtol=0, atol=TOLERANCE / 100) for a, b in pairs)


def _num_wrong(results: list[Any], wanted_results: tuple[float | str, ...]) -> int:
    """Of the entries that both lists have."""
    return sum(not _is_same(*pair) for pair in zip(results, wanted_results, strict=False))


def _is_same(got: Any, wanted_result: float | str) -> bool:
    if isinstance(wanted_result, str) or not is_number(got):
        return type(got) is type(wanted_result) and bool(got == wanted_result)
    return math.isclose(got, wanted_result, rel_tol=TOLERANCE)


def _key(case: Case) -> tuple[Any, ...]:
    values = dict(case, lengths=tuple(map(tuple, case["lengths"])))
    return tuple(values.values())


def _case_of(*key: Any) -> Case:
    case = dict(zip(FIELDS, key, strict=True))
    return case | {"lengths": [list(each) for each in case["lengths"]]}


@lru_cache(maxsize=512)
def _twin(*key: Any) -> Trial:
    """Trained with the gradient of all targets of a group at once."""
    trial = Trial(**_case_of(*key))
    trial.results = tuple(_twin_step(trial, group) for group in trial.groups())
    return trial


def _twin_step(trial: Trial, group: list[tuple[Tensor, Tensor]]) -> float | str:
    losses = torch.cat([losses_of(trial.model, *each) for each in group])
    if not len(losses):
        return NO_TARGETS
    mean = losses.sum() / len(losses)
    gradients = torch.autograd.grad(mean, list(trial.model.parameters()))
    length = length_of(gradients)
    if not (math.isfinite(mean.item()) and math.isfinite(length)):
        return NOT_FINITE
    factor = min(1.0, trial.case["max_norm"] / length)
    for parameter, gradient in zip(trial.model.parameters(), gradients, strict=True):
        parameter.grad = factor * gradient
    trial.optimizer.step()
    trial.scheduler.step()
    return mean.item()


def wanted(**case: Any) -> dict[str, int | float]:
    """Steps, weights and report of the twin."""
    trial = _twin(*_key(case))
    return {
        "not_numbers": 0,
        "steps": trial.num_steps,
        "schedule_steps": trial.num_schedule_steps,
        "weights_moved": trial.moved(),
        "wrong_weights": 0,
        "results": len(trial.groups()),
        "wrong_results": 0,
    }


@lru_cache(maxsize=2048)
def _moved_by(variant: str, *key: Any) -> dict[str, int | float]:
    """How far a loop with a known mistake moves the weights, and in how many steps."""
    trial = Trial(**_case_of(*key))
    with undisturbed(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial.run(wrong_loop(**VARIANTS[variant]))
    moved = trial.moved()
    if not math.isfinite(moved):
        return {"not_numbers": 1}
    return {
        "steps": trial.num_steps,
        "schedule_steps": trial.num_schedule_steps,
        "weights_moved": moved,
    }


def _by(variant: str) -> Callable[..., dict[str, int | float]]:
    return lambda *values: _moved_by(variant, *_key(dict(zip(FIELDS, values, strict=True))))


def _num_groups(*values: Any) -> int:
    return -(-len(values[1]) // int(values[2]))


def _in(scenario: str, formula: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A mistake that is looked for in one scenario: another training costs time in each case."""
    return lambda *values: formula(*values) if values[0] == scenario else {}


def _num_stepping(*values: Any, at_least: int = 1) -> int:
    """Groups that make a step, and have some micro-batches."""
    trial = _twin(*_key(dict(zip(FIELDS, values, strict=True))))
    pairs = zip(trial.groups(), trial.results, strict=True)
    return sum(len(group) >= at_least and type(result) is float for group, result in pairs)


def _broken(formulas: dict[str, Callable[..., dict[str, Any]]]) -> Callable[..., dict[str, Any]]:
    """A mistake that shows where a loss or a gradient is not finite, by which of them is not."""
    return lambda *values: formulas[values[5]](*values) if values[5] in formulas else {}


def _all_step(*values: Any) -> dict[str, int]:
    return {"steps": _num_groups(*values)}


def _breaks(*values: Any) -> dict[str, int]:
    return {"not_numbers": 1}


TRAIN = Check(
    cases=train_cases,
    reference=train,
    probe=probe,
    judge=Behaviour(
        wanted,
        Mistake(
            "A group makes a step though its loss is infinite: its gradient happens to be finite. "
            "Which two numbers have to be?",
            _broken({"loss": _all_step}),
        ),
        Mistake(
            "The loss is finite, and the gradient that goes into the weights is not. Which two "
            "numbers have to be?",
            _broken({"gradient": _breaks}),
        ),
        Mistake(
            "A group makes a step though its loss or its gradient is not finite, and the weights "
            "stay broken. What do you look at before the optimizer steps?",
            _broken({"loss": _all_step, "gradient": _breaks}),
        ),
        Mistake(
            "The optimizer steps after every micro-batch. What is a step made of here?",
            lambda *values: {"steps": len(values[1])},
        ),
        Mistake(
            "What is wrong comes after a group that is not finite. What of it is left in the "
            "gradients when the next one begins?",
            _in("not finite", _by("zero after a step")),
        ),
        Mistake(
            "A group without targets makes a step of the optimizer. What can it have learnt?",
            _in("no targets", lambda *values: {"steps": _num_groups(*values)}),
        ),
        Mistake(
            "The last group has fewer micro-batches, and no step is made with it. Why throw it "
            "away?",
            _in("last group", lambda *values: {"steps": _num_groups(*values) - 1}),
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
            _in("schedule", _by("schedule first")),
        ),
        Mistake(
            "Every micro-batch counts the same in a group, and its tokens differ. By what is the "
            "mean of all targets of a group divided?",
            _in("ragged", _by("mean of means")),
        ),
        Mistake(
            "The means of the micro-batches are added up. What is a mean of all targets of the "
            "group instead?",
            _in("ragged", _by("sum of means")),
        ),
        Mistake(
            "The losses of all targets are added up, and the gradient grows with their number. "
            "Which mean does the card ask for?",
            _in("ragged", _by("sum")),
        ),
        Mistake(
            "The gradient is clipped after every micro-batch, before it is whole. When is it that "
            "of the group?",
            _in("clipping", _by("clip each")),
        ),
        Mistake(
            "The gradient is not clipped, or too late. What is its norm when the optimizer steps?",
            _in("clipping", _by("no clip")),
        ),
        Mistake(
            "Every number of the gradient is clipped by itself, which turns it. What is to be no "
            "longer than the norm?",
            _in("clipping", _by("clip values")),
        ),
        Mistake(
            "Only the last micro-batch of each group moves the weights. When do you set gradients "
            "to zero?",
            _in("ragged", _by("zero each")),
        ),
        Mistake(
            "The gradients of a group are still there in the next one. When do you set them to "
            "zero?",
            _in("ragged", _by("never zero")),
        ),
        Mistake(
            "The weights are right, and your list has not one entry for each group. What do you "
            "add for a group that makes no step?",
            lambda *values: {"results": _num_stepping(*values)},
        ),
        Mistake(
            "The weights are right, and the group without targets is not reported as such. What "
            "is the mean of no numbers, and what do you take it for?",
            _in("no targets", lambda *values: {"wrong_results": 1}),
        ),
        Mistake(
            "The weights are right, and groups that make no step are not reported in the card's "
            "words. What does it want for each of the two reasons?",
            lambda *values: {"wrong_results": _num_groups(*values) - _num_stepping(*values)},
        ),
        Mistake(
            "The weights are right, and you report the loss of the last micro-batch only. Where "
            "do you add the others?",
            lambda *values: {"wrong_results": _num_stepping(*values, at_least=2)},
        ),
        Mistake(
            "The weights are right, and the losses that you report are not. Over which targets "
            "goes the mean of a group, and what type has it?",
            lambda *values: {"wrong_results": _num_stepping(*values)},
        ),
        scenarios=SCENARIOS,
        relative_tolerance=TOLERANCE,
    ),
)
