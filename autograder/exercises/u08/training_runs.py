"""What a training loop is given, and what it is compared with: a loop without micro-batches."""

import itertools
import math
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from autograder.checking.check import Case
from autograder.exercises.u08.ragged_batches import batch_of, length_of, losses_of, model_of, ragged

SCENARIOS = ("accumulation", "clipping", "schedule", "last group", "old gradients", "no step")
FIELDS = ("scenario", "lengths", "micro_batches_per_step", "max_norm", "broken", "kind")

WIDTH, VOCAB_SIZE = 4, 7
LONG, WIDTH_OF_LONG = 200, 16  # so that activations take more memory than all else
LEARNING_RATE, MOMENTUM = 0.3, 0.5
NO_CLIPPING = 1e9

# Clipping may add a millionth to the norm, as PyTorch's does, or not.
TOLERANCE = 1e-4

Run = Callable[..., Any]


def train_cases(seed: int) -> list[Case]:
    """Every scenario twice and more, with groups of two to four micro-batches, some long."""
    rng = random.Random(seed)
    cases = [_case("accumulation", [[3], [1], [2], [5]], 2)]
    for size in (2, 3, 2):
        two = _micro_batches(rng, size) + _micro_batches(rng, size)
        max_norm = round(rng.uniform(0.02, 0.04), 3)
        cases.append(_case("accumulation", two, size))
        cases.append(_case("clipping", two, size, max_norm=max_norm))
        cases.append(_case("schedule", two, size))
        cases.append(_case("last group", two[:-1], size))
    for size in (3, 4):
        cases.append(_case("accumulation", [[LONG - n] for n in range(2 * size)], size))
    for size in (2, 3):
        two = _micro_batches(rng, size) + _micro_batches(rng, size)
        cases.append(_case("old gradients", two, size))
    for _ in range(2):
        first, middle, last = (_micro_batches(rng, 2) for _ in range(3))
        cases.append(_case("no step", [*first, [0, 0], [0, 0], *last], 2, kind="targets"))
        for kind in ("loss", "gradient"):
            three, broken = [*first, *middle, *last], rng.choice((2, 3))
            cases.append(_case("no step", three, 2, broken=broken, kind=kind))
    return cases


def _micro_batches(rng: random.Random, count: int) -> list[list[int]]:
    """Lengths of each micro-batch of a group, two sequences each."""
    lengths = ragged(rng, 2 * count)
    return [lengths[2 * n : 2 * n + 2] for n in range(count)]


def is_long(lengths: list[list[int]]) -> bool:
    """Whether the activations of a case are looked at."""
    return lengths[0][0] == LONG


def _case(scenario: str, lengths: list[list[int]], size: int, **others: float | str) -> Case:
    """A case; nothing is clipped or broken in it unless it is said."""
    values = (scenario, lengths, size, NO_CLIPPING, -1, "")
    return dict(zip(FIELDS, values, strict=True)) | others


class _Breaking(nn.Module):
    """A model that breaks on the words that are too much: in its loss, or in its gradient."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = model_of(width, VOCAB_SIZE)

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
        path: How far all weights were from where they began, after each step of the optimizer.
        results: What the course's own step gave for each group.
        sizes: Sequences of every forward pass.
    """

    def __init__(self, **case: Any) -> None:
        """Build all that a training loop is given."""
        self.case = case
        self.model = _Breaking(WIDTH_OF_LONG if is_long(case["lengths"]) else WIDTH)
        self.sizes: list[int] = []
        self.start = [each.detach().clone() for each in self.model.parameters()]
        self.optimizer = SGD(
            self.model.parameters(), LEARNING_RATE, momentum=MOMENTUM, foreach=False
        )
        self.optimizer.register_step_post_hook(self._note)
        if case["scenario"] == "old gradients":
            for each in self.model.parameters():
                each.grad = torch.cos(each.detach())
        self.path: list[float] = []
        self.results: tuple[float | None, ...] = ()
        self.scheduler = LambdaLR(self.optimizer, self.factor)
        self.batches = [batch_of(lengths, VOCAB_SIZE) for lengths in case["lengths"]]
        if case["broken"] >= 0:
            ids, targets = self.batches[case["broken"]]
            ids[0, 0] = VOCAB_SIZE + (case["kind"] == "gradient")
            targets[0, 0] = 0

    def _note(self, *_: Any) -> None:
        self.path.append(self.moved())

    def factor(self, step: int) -> float:
        """Of the learning rate; it falls, but where a scenario is about something else."""
        is_falling = self.case["scenario"] in ("schedule", "no step")
        return 1 / (1 + step) if is_falling else 1.0

    @property
    def num_schedule_steps(self) -> int:
        """Its first is taken when it is made."""
        return int(self.scheduler.last_epoch)

    def run(self, loop: Run) -> Any:
        """What a loop returns for model, optimizer, scheduler, batches, group and norm."""
        size, max_norm = self.case["micro_batches_per_step"], self.case["max_norm"]
        given = (self.model, self.optimizer, self.scheduler, self.batches, size, max_norm)
        handle = self.model.register_forward_pre_hook(
            lambda _, inputs: self.sizes.append(len(inputs[0]))
        )
        try:
            return loop(*given)
        finally:
            handle.remove()

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


def key_of(case: Case) -> tuple[Any, ...]:
    """The values of a case as something that can be remembered."""
    values = dict(case, lengths=tuple(map(tuple, case["lengths"])))
    return tuple(values.values())


def case_of(*key: Any) -> Case:
    """The case that such values stand for."""
    case = dict(zip(FIELDS, key, strict=True))
    return case | {"lengths": [list(each) for each in case["lengths"]]}


@lru_cache(maxsize=512)
def oracle(*key: Any) -> Trial:
    """Trained with the gradient of all targets of a group at once."""
    trial = Trial(**case_of(*key))
    trial.results = tuple(_oracle_step(trial, group) for group in trial.groups())
    return trial


def _oracle_step(trial: Trial, group: list[tuple[Tensor, Tensor]]) -> float | None:
    losses = torch.cat([losses_of(trial.model, *each) for each in group])
    if not len(losses):
        return None
    mean = losses.sum() / len(losses)
    gradients = torch.autograd.grad(mean, list(trial.model.parameters()))
    length = length_of(gradients)
    if not (math.isfinite(mean.item()) and math.isfinite(length)):
        return None
    factor = min(1.0, trial.case["max_norm"] / length)
    for parameter, gradient in zip(trial.model.parameters(), gradients, strict=True):
        parameter.grad = factor * gradient
    trial.optimizer.step()
    trial.scheduler.step()
    return mean.item()


def in_numbers(trial: Trial, oracle: Trial) -> dict[str, int | float]:
    """Steps, and how far they led; how many lead where the oracle is before one does not."""
    moved = trial.moved()
    pairs = zip(trial.path, oracle.path, strict=False)
    right = itertools.takewhile(lambda pair: math.isclose(*pair, rel_tol=TOLERANCE), pairs)
    return {
        "not_numbers": int(not math.isfinite(moved)),
        "steps": len(trial.path),
        "schedule_steps": trial.num_schedule_steps,
        "right_steps_before_a_wrong_one": len(list(right)),
        "weights_moved": moved if math.isfinite(moved) else 0.0,
    }
