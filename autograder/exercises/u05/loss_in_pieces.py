"""Check of a loss whose logits are never all alive at once."""

import random
from collections.abc import Callable, Iterable
from functools import lru_cache
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import (
    errors_as_data,
    keep,
    num_different,
    require_tensor,
    undisturbed,
)
from course_utils.instruments import SavedTensor, count_saved_bytes, trace_memory
from course_utils.reference.recomputation import checkpoint

# For a sum of some hundred numbers in float64, in another order.
ROUNDING = 1e-9
# Tensors as large as a piece's logits that may be alive at once: torch's cross-entropy and its
# gradient need three, one written with a log-sum-exp five.
LOGITS_AT_ONCE = 5.5
FLOAT64_BYTES = 8

Run = Callable[..., Tensor]


def _sum_of_losses(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(hidden @ weight.T, targets, reduction="sum")


def loss_in_pieces(
    hidden: Tensor, weight: Tensor, targets: Tensor, num_pieces: int, checkpoint: Run
) -> Tensor:
    """The course's own answer."""
    total = hidden.new_zeros(())
    pieces = zip(hidden.tensor_split(num_pieces), targets.tensor_split(num_pieces), strict=True)
    for part, part_targets in pieces:
        total = total + checkpoint(_sum_of_losses, part, weight, part_targets)
    return total / len(targets)


def piece_cases(seed: int) -> list[Case]:
    """Pieces of one length and of two, one piece alone, small and larger vocabularies."""
    rng = random.Random(seed)
    pairs = [(11, 3), (12, 3), (16, 1), (30, 2), (31, 4), (29, 3)]
    while len(pairs) < 20:
        num_pieces, length = rng.randint(2, 3), rng.randint(6, 9)
        # equal chunks with a shorter last one give the same number of pieces
        pairs.append((num_pieces * length - rng.randint(0, 1), num_pieces))
    return [_case(tokens, 2, rng.randrange(41, 61, 2), pieces) for tokens, pieces in pairs]


def _case(*values: int) -> Case:
    return dict(zip(("num_tokens", "hidden_size", "vocab_size", "num_pieces"), values, strict=True))


class _Trial:
    """Hidden states, a head and targets of one case, always with the same numbers."""

    def __init__(self, num_tokens: int, hidden_size: int, vocab_size: int, num_pieces: int) -> None:
        generator = torch.Generator().manual_seed(num_tokens * vocab_size)
        shapes = ((num_tokens, hidden_size), (vocab_size, hidden_size))
        self.hidden, self.weight = (
            torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
            for shape in shapes
        )
        self.targets = torch.randint(vocab_size, (num_tokens,), generator=generator)
        self.num_pieces, self.num_runs = num_pieces, 0

    def checkpoint(self, function: Run, *tensors: Tensor) -> Tensor:
        self.num_runs += 1
        return checkpoint(function, *tensors)

    def loss(self, answer: Run) -> Tensor:
        given = (self.hidden, self.weight, self.targets, self.num_pieces, self.checkpoint)
        return require_tensor(answer(*given))

    @property
    def gradients(self) -> list[Tensor | None]:
        return [self.hidden.grad, self.weight.grad]


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """The student's loss: its value, gradients, pieces and bytes."""
    with undisturbed():
        return _observed(answer, **case)


def _observed(answer: Run, **case: int) -> dict[str, int | float]:
    trial, oracle, results = _Trial(**case), _Trial(**case), list[Tensor]()
    owners = (trial.hidden, trial.weight, trial.targets)
    saved = count_saved_bytes(lambda: keep(results, trial.loss(answer)), *owners)
    num_runs = trial.num_runs
    if results[0].requires_grad:
        results[0].backward()
    _all_at_once(oracle.hidden, oracle.weight, oracle.targets).backward()
    return {
        "pieces": num_runs,
        "kept_bytes_beside_inputs": _bytes_of(saved.tensors, case["num_pieces"]),
        "unseen_bytes": _bytes_of(saved.unseen, case["num_pieces"]),
        "loss": results[0].item(),
        "wrong_gradients": num_different(trial.gradients, oracle.gradients),
        "peak_too_high": int(_is_peak_too_high(answer, **case)),
    }


def _bytes_of(tensors: Iterable[SavedTensor], num_pieces: int) -> int:
    """Bytes of floating-point tensors with more than one number for each piece."""
    sizes = (each.storage_bytes for each in tensors if each.dtype.is_floating_point)
    return sum(size for size in sizes if size > FLOAT64_BYTES * num_pieces)


def _all_at_once(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(hidden @ weight.T, targets)


def _is_peak_too_high(answer: Run, **case: int) -> bool:
    """Whether too much is alive at once beside the inputs; with few pieces it is hard to tell."""
    if case["num_pieces"] < 3:
        return False
    trial = _Trial(**case)

    def step() -> None:
        loss = trial.loss(answer)
        if loss.requires_grad:
            loss.backward()

    trace = trace_memory(step, trial.hidden, trial.weight, trial.targets)
    return trace.peak_bytes - trace.total_bytes[0] > _allowed_bytes(**case)


def _allowed_bytes(num_tokens: int, hidden_size: int, vocab_size: int, num_pieces: int) -> int:
    """Room for some tensors as large as one piece's logits, and for gradients of the inputs."""
    piece = -(-num_tokens // num_pieces) * vocab_size
    gradients = (2 * num_tokens + 3 * vocab_size) * hidden_size
    return FLOAT64_BYTES * int(LOGITS_AT_ONCE * piece + gradients)


def wanted(**case: int) -> dict[str, int | float]:
    """The loss of all tokens at once, nothing kept beside the inputs, one run for each piece."""
    trial = _Trial(**case)
    return {
        "pieces": case["num_pieces"],
        "kept_bytes_beside_inputs": 0,
        "unseen_bytes": 0,
        "loss": _all_at_once(trial.hidden, trial.weight, trial.targets).item(),
        "wrong_gradients": 0,
        "peak_too_high": 0,
    }


def _logits_bytes(num_tokens: int, hidden_size: int, vocab_size: int, num_pieces: int) -> int:
    return FLOAT64_BYTES * num_tokens * vocab_size


@lru_cache(maxsize=512)
def _mean_losses(*values: int) -> list[float]:
    """The mean loss of each piece."""
    trial = _Trial(*values)
    pieces = zip(*(t.tensor_split(values[-1]) for t in (trial.hidden, trial.targets)), strict=True)
    return [_all_at_once(part, trial.weight, targets).item() for part, targets in pieces]


CHECK = Check(
    cases=piece_cases,
    reference=loss_in_pieces,
    observe=observe,
    forbidden_modules=("torch.utils.checkpoint",),
    judge=Behaviour(
        wanted,
        Mistake(
            "No piece goes through `checkpoint`, so that each keeps its log-softmax until "
            "backward. How large are all of them together?",
            lambda *values: {"pieces": 0},
        ),
        Mistake(
            "There is one piece, and all logits live at once. Where do you divide the tokens?",
            lambda *values: {"pieces": 1},
        ),
        Mistake(
            "All logits are kept: they are made before they are divided. Which product belongs "
            "inside of a piece?",
            lambda *values: {"kept_bytes_beside_inputs": _logits_bytes(*values)},
        ),
        Mistake(
            "All logits live on where autograd does not see them. Who holds them when a piece is "
            "done?",
            lambda *values: {"unseen_bytes": _logits_bytes(*values)},
        ),
        Mistake(
            "Your loss is the mean of the pieces' means. When does a token of a short piece count "
            "more than one of a long piece?",
            lambda *values: {"loss": fmean(_mean_losses(*values))},
        ),
        Mistake(
            "Your loss is the sum of the pieces' means. By what is a mean of all tokens divided?",
            lambda *values: {"loss": sum(_mean_losses(*values))},
        ),
        Mistake(
            "Your loss is the sum over all tokens. What does the exercise ask for?",
            lambda tokens, h, v, n: {"loss": wanted(**_case(tokens, h, v, n))["loss"] * tokens},
        ),
        Mistake(
            "The loss is right, and one of two gradients is not. Do both factors of the logits go "
            "into the piece as tensors that want one?",
            lambda *values: {"wrong_gradients": 1},
        ),
        Mistake(
            "Numbers and kept bytes are right, and yet more lives at once than the logits of one "
            "piece need. How many tokens does the product inside of a piece see?",
            lambda *values: {"peak_too_high": 1},
        ),
        relative_tolerance=ROUNDING,
    ),
)
