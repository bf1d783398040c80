"""What an accumulation is given, and the gradients of its whole batch at once."""

import random
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.check import Case
from autograder.exercises.u08.ragged_batches import (
    batch_of,
    gradients_of,
    losses_of,
    model_of,
    num_targets,
    ragged,
)

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

FEW_TOKENS = 2  # so that weights take more memory than activations
NUM_WEIGHTS = 5  # tensors of the model

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
            cases.append(case_of(scenario, lengths, size, rng.randint(3, 5), rng.randint(7, 11)))
    for length, size in ((300, 1), (150, 2)):
        num_micro_batches = rng.randint(3, 5)
        cases.append(case_of("memory", [length] * (num_micro_batches * size), size, 16, 5))
    cases.append(case_of("memory", [FEW_TOKENS] * rng.randint(3, 5), 1, 48, 48))
    return [case_of("rest", [3, 1, 2], 2, 3, 5), *cases]


def _with_empty(rng: random.Random, size: int) -> list[int]:
    """One micro-batch without targets among others."""
    lengths = ragged(rng, 2 * size)
    return [*lengths[:size], *[0] * size, *lengths[size:]]


def case_of(*values: Any) -> Case:
    """A case from its values in order."""
    return dict(zip(FIELDS, values, strict=True))


class Trial:
    """Model and batch of a case.

    Attributes:
        sizes: Sequences of every forward pass that was watched.
        before: Gradients that are there already.
    """

    def __init__(
        self,
        scenario: str,
        lengths: list[int],
        micro_batch_size: int,
        width: int,
        vocab_size: int,
    ) -> None:
        """Build all that is given, always the same."""
        self.model = model_of(width, vocab_size)
        self.ids, self.targets = batch_of(lengths, vocab_size)
        self.micro_batch_size = micro_batch_size
        self.sizes: list[int] = []
        self.before: list[Tensor | None] = [None for _ in self.model.parameters()]
        if scenario in ("existing gradients", "memory"):
            self.before = [torch.sin(each.detach()) for each in self.model.parameters()]
        for parameter, gradient in zip(self.model.parameters(), self.before, strict=True):
            parameter.grad = None if gradient is None else gradient.clone()

    def run(self, answer: Run) -> Any:
        """What an accumulation returns."""
        return answer(self.model, self.ids, self.targets, self.micro_batch_size)

    def watched(self, answer: Run) -> Any:
        """The same, with the sizes of its passes noted."""
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
        """As they are now."""
        return [each.grad for each in self.model.parameters()]


@lru_cache(maxsize=512)
def whole(*key: Any) -> tuple[float, tuple[Tensor, ...]]:
    """Loss and gradients of the whole batch at once; zeros without targets."""
    trial = trial_of(key)
    losses = losses_of(trial.model, trial.ids, trial.targets)
    if not len(losses):
        return 0.0, tuple(torch.zeros_like(each) for each in trial.model.parameters())
    mean = losses.sum() / len(losses)
    return mean.item(), tuple(gradients_of(mean, trial.model))


def trial_of(key: tuple[Any, ...]) -> Trial:
    """The trial of the case that such values stand for."""
    return Trial(**case_of(*(list(each) if type(each) is tuple else each for each in key)))


@lru_cache(maxsize=512)
def wanted_gradients(*key: Any) -> list[Tensor]:
    """Those of the whole batch, on top of what was there."""
    before = trial_of(key).before
    return on_top(whole(*key)[1], before)


def on_top(gradients: Iterable[Tensor], before: Iterable[Tensor | None]) -> list[Tensor]:
    """New gradients added to old ones, where there are any."""
    pairs = zip(gradients, before, strict=True)
    return [gradient if old is None else gradient + old for gradient, old in pairs]
