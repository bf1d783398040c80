"""What a training loop is called with, what it leaves, and the bytes that it holds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from course_utils.instruments import trace_memory

Batches = list[tuple[Tensor, Tensor]]

LEARNING_RATE = 0.5
# What a loop may leave behind, as it belongs to the model and its optimizer.
OWNED = ("parameters", "optimizer_states", "gradients")


class Setup(NamedTuple):
    """What a loop is called with, as its caller left it."""

    body: nn.Sequential
    head: nn.Linear
    optimizer: torch.optim.Optimizer
    batches: Batches
    held_out: Batches

    @classmethod
    def of(cls, case: Case) -> "Setup":
        """The same model and batches for the same sizes."""
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(case["width"] * case["seq_len"])
            return cls._drawn(case)

    @classmethod
    def _drawn(cls, case: Case) -> "Setup":
        num_words, width, num_layers = (case[key] for key in ("num_words", "width", "num_layers"))
        dtype = precision_of(case)
        layers: list[nn.Module] = [nn.Embedding(num_words, width, dtype=dtype)]
        for _ in range(num_layers):
            layers += [nn.Linear(width, width, bias=False, dtype=dtype), nn.Tanh()]
        head = nn.Linear(width, num_words, bias=False, dtype=dtype)
        body = nn.Sequential(*layers)
        model = nn.Sequential(body, head).train(case["is_training"])
        head.weight.requires_grad_(not case["is_head_frozen"])
        for weight in model.parameters():
            if case["has_gradients"] and weight.requires_grad:
                weight.grad = torch.ones_like(weight)
        optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE, foreach=False)
        return cls(body, head, optimizer, *_batches_of(case))

    @property
    def model(self) -> nn.Sequential:
        """Body and head."""
        return nn.Sequential(self.body, self.head)


def precision_of(case: Case) -> torch.dtype:
    """In which precision the model is."""
    dtype: torch.dtype = getattr(torch, case["precision"])
    return dtype


def _batches_of(case: Case) -> tuple[Batches, Batches]:
    """Batches to train and to evaluate on; the first of each may be a small one."""
    b, s = case["num_sequences"], case["seq_len"]
    drawn = torch.randint(case["num_words"], (100, 2, b, s)).unbind()
    chosen = drawn[: case["num_batches"]], drawn[-case["num_held_out"] :]
    training, held_out = ([(pair[0], pair[1]) for pair in pairs] for pairs in chosen)
    if case["is_first_batch_small"]:
        for each in (training, held_out):
            each[:1] = [(ids[:1], targets[:1]) for ids, targets in each[:1]]
    if case["scenario"] != "loss":  # there an evaluation holds next to nothing
        held_out = [(ids[:1, :1], targets[:1, :1]) for ids, targets in held_out]
    return training, held_out


class Held(NamedTuple):
    """Bytes of activations and temporaries during a call and after it, and what it returned."""

    peak_bytes: int
    left_bytes: int
    result: Any


def hold(call: Callable[[], object], *owners: Any) -> Held:
    """What a call holds at its peak, and what is left while its result is alive."""
    results: list[object] = []

    def step() -> None:
        torch.zeros(())  # a loop without any operation cannot be traced
        results.append(call())

    trace = trace_memory(step, *owners)
    left = [each for each in trace.storages if each.died is None and each.category not in OWNED]
    left_bytes = sum(each.storage_bytes for each in left)
    return Held(max(trace.working_bytes), left_bytes, results[0])


def state_of(setup: Setup) -> dict[str, Any]:
    """What belongs to a model beside its structure, and how many batches its caller has."""
    weights = list(setup.model.parameters())
    return {
        "weights": [each.detach().clone() for each in weights],
        "gradients": [None if each.grad is None else each.grad.clone() for each in weights],
        "wants_gradient": [each.requires_grad for each in weights],
        "modes": [each.training for each in (setup.body, setup.head)],
        "num_batches": [len(setup.batches), len(setup.held_out)],
    }
