"""Ragged batches for gradient accumulation: small models in float64, cases, trials, oracles."""

import copy
import math
import random
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from course_utils.instruments import count_saved_bytes, trace_memory
from course_utils.reference.accumulation import IGNORED, sum_of_losses

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
NUM_WEIGHTS = 5  # parameter tensors of the model

# The same sums in another order: a few roundings of 1.1e-16 for numbers near one.
ROUNDING = 1e-9

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


def ragged(rng: random.Random, count: int) -> list[int]:
    """Lengths that all differ, some of them short."""
    return rng.sample([1, 2, 3, 9, 10, 11, 12, 13], count)


def _with_empty(rng: random.Random, size: int) -> list[int]:
    """Lengths of three micro-batches; the middle one has no targets."""
    lengths = ragged(rng, 2 * size)
    return [*lengths[:size], *[0] * size, *lengths[size:]]


def case_of(*values: Any) -> Case:
    """A case from its values in order."""
    return dict(zip(FIELDS, values, strict=True))


def model_of(width: int, vocab_size: int) -> nn.Sequential:
    """From token ids (b, s) to logits (b, s, v); the same weights for the same sizes."""
    return copy.deepcopy(_template(width, vocab_size))


@lru_cache(maxsize=64)
def _template(width: int, vocab_size: int) -> nn.Sequential:
    with torch.random.fork_rng([]):
        torch.manual_seed(width * vocab_size)
        return nn.Sequential(
            nn.Embedding(vocab_size, width, dtype=torch.float64),
            nn.Linear(width, width, dtype=torch.float64),
            nn.Tanh(),
            nn.Linear(width, vocab_size, dtype=torch.float64),
        )


def batch_of(lengths: list[int], vocab_size: int) -> tuple[Tensor, Tensor]:
    """Random ids and targets (b, s); padding has the target -100."""
    generator = torch.Generator().manual_seed(sum(lengths) * vocab_size)
    shape = (2, len(lengths), max(1, *lengths))
    ids, targets = torch.randint(vocab_size, shape, generator=generator).unbind()
    is_padding = torch.arange(shape[2]) >= torch.tensor(lengths)[:, None]
    return ids, targets.masked_fill(is_padding, IGNORED)


class Trial:
    """Model and batch of a case, and the gradients that are there already.

    Attributes:
        sizes: Sequences of every forward pass under `run_monitored`.
        before: Gradients before the run; None for parameters without one.
    """

    def __init__(
        self,
        scenario: str,
        lengths: list[int],
        micro_batch_size: int,
        width: int,
        vocab_size: int,
    ) -> None:
        """Build the same model and batch for the same case."""
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

    def run_monitored(self, answer: Run) -> Any:
        """What an accumulation returns; records the size of each forward pass."""
        handle = self.model.register_forward_pre_hook(
            lambda _, inputs: self.sizes.append(len(inputs[0]))
        )
        try:
            return self.run(answer)
        finally:
            handle.remove()

    def peak_bytes(self, answer: Run) -> int:
        """Most bytes that are live at once while an accumulation runs."""
        return trace_memory(lambda: self.run(answer), self.model).peak_bytes

    @property
    def num_passes_allowed(self) -> tuple[int, int]:
        """Fewest and most: the micro-batches that have targets, and all of them."""
        parts = self.targets.split(self.micro_batch_size)
        return sum(num_targets(part) > 0 for part in parts), len(parts)

    def gradients(self) -> list[Tensor | None]:
        """What is in ``grad`` now."""
        return [each.grad for each in self.model.parameters()]


def trial_of(key: tuple[Any, ...]) -> Trial:
    """The trial of a case, from the `key_of` the case."""
    return Trial(**case_of(*(list(each) if type(each) is tuple else each for each in key)))


@lru_cache(maxsize=512)
def whole_batch(*key: Any) -> tuple[float, tuple[Tensor, ...]]:
    """Loss and gradients of the whole batch at once; zeros if it has no targets."""
    trial = trial_of(key)
    losses = losses_of(trial.model, trial.ids, trial.targets)
    if not len(losses):
        return 0.0, tuple(torch.zeros_like(each) for each in trial.model.parameters())
    mean = losses.sum() / len(losses)
    return mean.item(), tuple(gradients_of(mean, trial.model))


@lru_cache(maxsize=512)
def wanted_gradients(*key: Any) -> list[Tensor]:
    """Gradients of the whole batch, added to those that were there before."""
    pairs = zip(whole_batch(*key)[1], trial_of(key).before, strict=True)
    return [new if old is None else new + old for new, old in pairs]


def num_targets(targets: Tensor) -> int:
    """Targets that count."""
    return int((targets != IGNORED).sum())


def losses_of(model: nn.Module, ids: Tensor, targets: Tensor) -> Tensor:
    """The loss of each target that counts, without PyTorch's own cross-entropy."""
    counts = targets != IGNORED
    scores: Tensor = model(ids).log_softmax(-1)[counts]
    return -scores.gather(-1, targets[counts][:, None])[:, 0]


def gradients_of(loss: Tensor, model: nn.Module) -> list[Tensor]:
    """Gradients of a loss; ``grad`` is left alone."""
    return list(torch.autograd.grad(loss, list(model.parameters())))


def length_of(tensors: Iterable[Tensor | None]) -> float:
    """Norm of some tensors as one vector."""
    squares = [float(each.detach().double().square().sum()) for each in tensors if each is not None]
    return math.sqrt(sum(squares))


def kept_bytes(model: nn.Module, ids: Tensor, targets: Tensor) -> int:
    """Bytes that a micro-batch keeps for backward."""
    saved = count_saved_bytes(lambda: sum_of_losses(model, ids, targets), model)
    floats = (each for each in saved.tensors if each.dtype.is_floating_point)
    return sum(each.storage_bytes for each in floats)


def times_too_much(extra_bytes: int, size: int) -> int:
    """Extra bytes in multiples of a size; rounded, so a tensor freed a line late is nothing."""
    return max(0, round(extra_bytes / size))
