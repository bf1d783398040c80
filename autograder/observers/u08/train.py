"""A training loop over groups of micro-batches: its steps, weights, report, and bytes."""

import math
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from autograder.checking import plain_data
from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.result_form import WrongForm, is_number, require_form
from autograder.observers.tools import errors_as_data, length_of, undisturbed
from autograder.observers.u08.ragged_batches import (
    batch_of,
    micro_batches_held,
    model_of,
    sequences_too_many,
    times_too_much,
)
from course_utils.instruments import trace_memory

WIDTH, VOCAB_SIZE = 4, 7
LONG, WIDTH_OF_LONG = 200, 16  # so that activations take more memory than all else
LEARNING_RATE, MOMENTUM = 0.3, 0.5
# Clipping may add a millionth to the norm, as PyTorch's does, or not.
TOLERANCE = 1e-4


def is_long(case: Case) -> bool:
    """Whether the memory of a case is measured."""
    return bool(case["lengths"][0][0] == LONG)


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


class Run:
    """Model, optimizer, scheduler and micro-batches of a case, always the same.

    Attributes:
        path: Distance of the weights from their start, after each step of the optimizer.
        sizes: Sequences of every forward pass.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self.model = _BreakableModel(WIDTH_OF_LONG if is_long(case) else WIDTH)
        self._start = [each.detach().clone() for each in self.model.parameters()]
        if case["scenario"] == "old gradients":
            for each in self.model.parameters():
                each.grad = torch.cos(each.detach())
        self.path: list[float] = []
        self.sizes: list[int] = []
        self.optimizer = SGD(
            self.model.parameters(), LEARNING_RATE, momentum=MOMENTUM, foreach=False
        )
        self.scheduler = LambdaLR(self.optimizer, self._rate_factor)
        self.batches = [batch_of(lengths, VOCAB_SIZE) for lengths in case["lengths"]]
        if case["broken"] >= 0:
            ids, targets = self.batches[case["broken"]]
            ids[0, 0] = VOCAB_SIZE + (case["kind"] == "gradient")
            targets[0, 0] = 0
        self.model.register_forward_pre_hook(lambda _, ids: self.sizes.append(len(ids[0])))
        self.optimizer.register_step_post_hook(lambda *_: self.path.append(self._distance()))

    def _rate_factor(self, step: int) -> float:
        """Factor of the learning rate: falls in two scenarios, constant in the others."""
        is_falling = self._case["scenario"] in ("schedule", "no step")
        return 1 / (1 + step) if is_falling else 1.0

    def _distance(self) -> float:
        pairs = zip(self.weights(), self._start, strict=True)
        return length_of([now - then for now, then in pairs])

    def weights(self) -> list[Tensor]:
        """Weights as they are now."""
        return [each.detach() for each in self.model.parameters()]

    def __call__(self, loop: Any) -> Any:
        """What a training loop returns."""
        size, max_norm = self._case["micro_batches_per_step"], self._case["max_norm"]
        return loop(self.model, self.optimizer, self.scheduler, self.batches, size, max_norm)

    def peak_bytes(self, loop: Any, results: list[Any]) -> int:
        """Most bytes that are live at once while a loop runs; appends what it returns."""
        return trace_memory(lambda: results.append(self(loop)), self.model).peak_bytes


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Steps, weights, report and passes of a loop, and its peak where it counts."""
    run, returned, peak_bytes = Run(case), list[Any](), 0
    with undisturbed():
        if is_long(case):
            peak_bytes = run.peak_bytes(answer, returned)
        else:
            returned.append(run(answer))
    (results,) = returned
    if type(results) is not list:
        raise WrongForm("a list with an entry for each group", plain_data.describe(results))
    return {
        "path": run.path,
        "schedule_steps": run.scheduler.last_epoch,  # without its first, when it is made
        "weights": run.weights(),
        "results": results,
        "sizes": run.sizes,
        "peak_bytes": peak_bytes,
    }


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Steps taken, where they led, how many were right before one was not; report and memory."""
    path, results = observed["path"], observed["results"]
    pairs = zip(path, right["path"], strict=False)
    good = takewhile(lambda pair: math.isclose(*pair, rel_tol=TOLERANCE), pairs)
    moved = path[-1] if path else 0.0
    weights = zip(observed["weights"], right["weights"], strict=True)
    largest = max(map(len, case["lengths"]))
    too_many = max(0, max(observed["sizes"], default=0) - largest)
    reported = sum(each for each in results if is_number(each))
    is_right = math.isclose(reported, right["reported"], rel_tol=TOLERANCE)
    held = 0
    if is_long(case):
        needed, kept = right["bytes"]
        held = times_too_much(observed["peak_bytes"] - needed, kept)
    return [
        Fact(
            "not_numbers",
            int(not math.isfinite(moved)),
            "nan or inf among the weights (0 no, 1 yes)",
            "Which numbers of a group must be finite before the optimizer steps, and what is left "
            "in the gradients when the next group begins?",
        ),
        Fact(
            "steps",
            len(path),
            "steps of the optimizer",
            "The number of optimizer steps is wrong. When is a group full, is the last one short, "
            "and which groups make no step?",
        ),
        Fact(
            "schedule_steps",
            observed["schedule_steps"],
            "steps of the scheduler",
            "The scheduler's number of steps is wrong. After what should it step?",
        ),
        Fact(
            "right_steps",
            len(list(good)),
            "correct steps before the first wrong one",
            "Look at the first wrong step. What is in the gradients when its group begins, by what "
            "is each loss divided, and what happens between the last backward and the optimizer's "
            "step?",
        ),
        Fact(
            "weights_moved",
            moved if math.isfinite(moved) else 0.0,
            "how far the weights moved in all",
            "How far does each step move the weights, and which of gradient, clipping and learning "
            "rate explains the difference?",
        ),
        Fact(
            "wrong_weights",
            sum(not _is_same_weight(*pair) for pair in weights),
            "weights that are wrong at the end",
            "The weights have moved by the right distance to another place. Does each parameter "
            "keep its share of the gradient, and do you change weights after a step?",
        ),
        Fact(
            "results",
            len(results),
            "entries in the list",
            "How many groups are there, and what do you append for a group that makes no step?",
        ),
        Fact(
            "wrong_results",
            sum(not _is_same(*pair) for pair in zip(results, right["report"], strict=False)),
            "wrong entries in the list",
            "Over which targets is each entry a mean, and which entries are None?",
        ),
        Fact(
            "reported",
            right["reported"] if is_right else reported,
            "the sum of all losses in the list",
            "Over which targets is each loss in your list a mean, and which groups does the list "
            "leave out or count twice?",
        ),
        sequences_too_many(too_many if case["scenario"] == "accumulation" else 0),
        micro_batches_held(held),
    ]


def _is_same_weight(ours: Tensor, theirs: Tensor) -> bool:
    require_form(ours, theirs)
    return torch.allclose(ours, theirs, rtol=0, atol=TOLERANCE / 100)


def _is_same(got: Plain, wanted: float | None) -> bool:
    if wanted is None or not is_number(got):
        return got is None and wanted is None
    return math.isclose(got, wanted, rel_tol=TOLERANCE)
