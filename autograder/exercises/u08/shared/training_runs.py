"""Training loops over groups of micro-batches: cases, trials, the oracle, and known wrong loops.

The oracle takes the gradient of all targets of a group at once, without micro-batches.
"""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from autograder.checking.exercise_check import Case
from autograder.exercises.u08.shared.ragged_batches import (
    batch_of,
    length_of,
    losses_of,
    model_of,
    num_targets,
    ragged,
)
from course_utils.instruments import trace_memory

SCENARIOS = ("accumulation", "clipping", "schedule", "last group", "old gradients", "no step")
FIELDS = ("scenario", "lengths", "micro_batches_per_step", "max_norm", "broken", "kind")

WIDTH, VOCAB_SIZE = 4, 7
LONG, WIDTH_OF_LONG = 200, 16  # so that activations take more memory than all else
LEARNING_RATE, MOMENTUM = 0.3, 0.5
NO_CLIPPING = 1e9

# Clipping may add a millionth to the norm, as PyTorch's does, or not.
TOLERANCE = 1e-4

Run = Callable[..., Any]
Batches = Sequence[tuple[Tensor, Tensor]]


def train_cases(seed: int) -> list[Case]:
    """Every scenario twice or more, with groups of two to four micro-batches, some long."""
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
    """Whether the memory of a case is measured."""
    return lengths[0][0] == LONG


def _case(scenario: str, lengths: list[list[int]], size: int, **others: float | str) -> Case:
    """A case; by default nothing is clipped or broken."""
    values = (scenario, lengths, size, NO_CLIPPING, -1, "")
    return dict(zip(FIELDS, values, strict=True)) | others


class _BreakableModel(nn.Module):
    """A model that one extra token id gives an infinite loss, and another an infinite gradient."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = model_of(width, VOCAB_SIZE)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.layers(ids % VOCAB_SIZE)
        if bool((ids == VOCAB_SIZE).any()):  # the loss of target 0 is infinite, its gradient finite
            is_first = torch.arange(VOCAB_SIZE) == 0
            logits = logits.masked_fill(is_first, -math.inf)
        if bool((ids == VOCAB_SIZE + 1).any()) and logits.requires_grad:
            logits.register_hook(lambda grad: grad * math.inf)
        return logits


class Trial:
    """Model, optimizer, scheduler and micro-batches of a case, always the same.

    Attributes:
        path: Distance of the weights from their start, after each step of the optimizer.
        results: The oracle's entry for each group; empty for other loops.
        sizes: Sequences of every forward pass.
    """

    def __init__(self, **case: Any) -> None:
        """Build what a training loop takes."""
        self.case = case
        self.model = _BreakableModel(WIDTH_OF_LONG if is_long(case["lengths"]) else WIDTH)
        self.sizes: list[int] = []
        self.start = [each.detach().clone() for each in self.model.parameters()]
        self.optimizer = SGD(
            self.model.parameters(), LEARNING_RATE, momentum=MOMENTUM, foreach=False
        )
        self.optimizer.register_step_post_hook(lambda *_: self.path.append(self.distance()))
        if case["scenario"] == "old gradients":
            for each in self.model.parameters():
                each.grad = torch.cos(each.detach())
        self.path: list[float] = []
        self.results: tuple[float | None, ...] = ()
        self.scheduler = LambdaLR(self.optimizer, self._rate_factor)
        self.batches = [batch_of(lengths, VOCAB_SIZE) for lengths in case["lengths"]]
        if case["broken"] >= 0:
            ids, targets = self.batches[case["broken"]]
            ids[0, 0] = VOCAB_SIZE + (case["kind"] == "gradient")
            targets[0, 0] = 0

    def _rate_factor(self, step: int) -> float:
        """Factor of the learning rate: falls in two scenarios, constant in the others."""
        is_falling = self.case["scenario"] in ("schedule", "no step")
        return 1 / (1 + step) if is_falling else 1.0

    def run(self, loop: Run) -> Any:
        """What a training loop returns."""
        size, max_norm = self.case["micro_batches_per_step"], self.case["max_norm"]
        arguments = (self.model, self.optimizer, self.scheduler, self.batches, size, max_norm)
        handle = self.model.register_forward_pre_hook(
            lambda _, inputs: self.sizes.append(len(inputs[0]))
        )
        try:
            return loop(*arguments)
        finally:
            handle.remove()

    def peak_bytes(self, loop: Run) -> int:
        """Most bytes that are live at once while a loop runs."""
        return trace_memory(lambda: self.run(loop), self.model).peak_bytes

    def weights(self) -> list[Tensor]:
        """Weights as they are now."""
        return [each.detach() for each in self.model.parameters()]

    def distance(self) -> float:
        """Norm of how far all weights are from their start."""
        pairs = zip(self.weights(), self.start, strict=True)
        return length_of([now - then for now, then in pairs])

    def groups(self) -> list[Batches]:
        """Micro-batches of each step."""
        size = self.case["micro_batches_per_step"]
        starts = range(0, len(self.batches), size)
        return [self.batches[start : start + size] for start in starts]

    def numbers(self, oracle: "Trial") -> dict[str, int | float]:
        """Steps taken, where they led, and how many agree with the oracle's before one differs."""
        distance = self.distance()
        pairs = zip(self.path, oracle.path, strict=False)
        right = itertools.takewhile(lambda pair: math.isclose(*pair, rel_tol=TOLERANCE), pairs)
        return {
            "not_numbers": int(not math.isfinite(distance)),
            "steps": len(self.path),
            "schedule_steps": int(self.scheduler.last_epoch),  # without its first, when it is made
            "right_steps_before_a_wrong_one": len(list(right)),
            "weights_moved": distance if math.isfinite(distance) else 0.0,
        }


def train_key(case: Case) -> tuple[Any, ...]:
    """The values of a case, hashable."""
    return tuple((case | {"lengths": tuple(map(tuple, case["lengths"]))}).values())


def case_of(*key: Any) -> Case:
    """The case of a `train_key`."""
    case = dict(zip(FIELDS, key, strict=True))
    return case | {"lengths": [list(each) for each in case["lengths"]]}


@lru_cache(maxsize=512)
def oracle(*key: Any) -> Trial:
    """A trial trained with the gradient of all targets of a group at once."""
    trial = Trial(**case_of(*key))
    trial.results = tuple(_oracle_step(trial, group) for group in trial.groups())
    return trial


def _oracle_step(trial: Trial, group: Batches) -> float | None:
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


WRONG_LOOPS: dict[str, dict[str, str]] = {
    "schedule first": {"schedule": "before"},
    "mean of means": {"weighting": "mean of means"},
    "sum of means": {"weighting": "sum of means"},
    "sum": {"weighting": "sum"},
    "all positions": {"weighting": "all positions"},
    "all groups": {"weighting": "all groups"},
    "clip each": {"clip": "each"},
    "clip each and all": {"clip": "each and all"},
    "clip tensors": {"clip": "tensors"},
    "no clip": {"clip": "never"},
    "clip values": {"clip": "values"},
    "zero each": {"zero": "each"},
    "never zero": {"zero": "never"},
    "zero after a step": {"zero": "after a step"},
    "zero after a group": {"zero": "after a group"},
}


def wrong_loop(
    weighting: str = "", clip: str = "group", zero: str = "group", schedule: str = "after"
) -> Callable[..., None]:
    """A loop that is right unless an argument says otherwise.

    Args:
        weighting: How micro-batches are weighted; empty for right.
        clip: ``"group"``, ``"each"`` micro-batch, ``"each and all"``, ``"tensors"`` one by one,
            ``"values"``, or ``"never"``.
        zero: Before each ``"group"``, before ``"each"`` micro-batch, ``"after a group"``, only
            ``"after a step"``, or ``"never"``.
        schedule: ``"after"`` the optimizer, or ``"before"`` it.
    """

    def loop(  # noqa: PLR0913, PLR0917  the arguments of the student's loop
        model: nn.Module, optimizer: Any, scheduler: Any, batches: Any, size: int, max_norm: float
    ) -> None:
        weights = list(model.parameters())
        for start in range(0, len(batches), size):
            group = batches[start : start + size]
            if zero == "group":
                optimizer.zero_grad()
            mean = 0.0
            factors = _factors(weighting, group, batches)
            for (ids, targets), factor in zip(group, factors, strict=True):
                if zero == "each":
                    optimizer.zero_grad()
                loss = losses_of(model, ids, targets).sum() * factor
                loss.backward()
                mean += loss.item()
                if clip.startswith("each"):
                    clip_grad_norm_(weights, max_norm)
            norm = length_of([each.grad for each in weights])
            _clip_group(clip, weights, max_norm)
            has_targets = any(num_targets(targets) for _, targets in group)
            is_step = has_targets and math.isfinite(mean) and math.isfinite(norm)
            if is_step:
                first, second = optimizer, scheduler
                if schedule == "before":
                    first, second = scheduler, optimizer
                first.step()
                second.step()
            if zero == "after a group" or (zero == "after a step" and is_step):
                optimizer.zero_grad()

    return loop


def _factors(weighting: str, group: Batches, batches: Batches) -> list[float]:
    """Factors of the micro-batches' summed losses; a sum without targets counts as one."""
    counts = [max(1, num_targets(targets)) for _, targets in group]
    of_group = sum(num_targets(targets) for _, targets in group)
    of_all_groups = sum(num_targets(targets) for _, targets in batches)
    positions = sum(targets.numel() for _, targets in group)
    return {
        "": [1 / max(1, of_group)] * len(group),
        "mean of means": [1 / (count * len(group)) for count in counts],
        "sum of means": [1 / count for count in counts],
        "sum": [1.0] * len(group),
        "all positions": [1 / positions] * len(group),
        "all groups": [1 / of_all_groups] * len(group),
    }[weighting]


def _clip_group(clip: str, weights: list[nn.Parameter], max_norm: float) -> None:
    """Clip the gradient of a whole group."""
    if clip in ("group", "each and all"):
        clip_grad_norm_(weights, max_norm)
    if clip == "values":
        clip_grad_value_(weights, max_norm)
    for weight in weights if clip == "tensors" else ():
        clip_grad_norm_(weight, max_norm)
