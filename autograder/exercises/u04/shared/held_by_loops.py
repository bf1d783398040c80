"""What a loop holds: a small model, its batches, and the bytes that are live beside them.

Held memory is counted in whole batches: a variable that holds a number or two counts as nothing, a
graph counts.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case
from course_utils.instruments import trace_memory

FLOAT64_BYTES = 8
# The same sums in another order: a few roundings of 1.1e-16 for numbers near one.
ROUNDING = 1e-9
# A mean may be taken in fp32, from numbers in float64: a few roundings of 6e-8.
ROUNDING_OF_A_MEAN = 1e-6
NUM_WORDS = 5

Batches = list[tuple[Tensor, Tensor]]

# What a loop may leave behind, as it belongs to the model and its optimizer.
OWNED = ("parameters", "optimizer_states", "gradients")


class Held(NamedTuple):
    """Bytes of activations and temporaries during a call and after it, and what it returned."""

    peak_bytes: int
    left_bytes: int
    result: Any


def held(call: Callable[[], object], *owners: Any) -> Held:
    """What a call holds at its peak, and what is left while its result is alive."""
    results: list[object] = []
    trace = trace_memory(lambda: results.append(call()), *owners)
    left = [each for each in trace.storages if each.died is None and each.category not in OWNED]
    return Held(
        peak_bytes=max(trace.working_bytes),
        left_bytes=sum(each.storage_bytes for each in left),
        result=results[0],
    )


def layers_of(width: int, num_layers: int) -> list[nn.Module]:
    """An embedding and layers of one width, in float64, the same for the same sizes."""
    with torch.random.fork_rng():
        torch.manual_seed(width * num_layers)
        layers: list[nn.Module] = [nn.Embedding(NUM_WORDS, width, dtype=torch.float64)]
        for _ in range(num_layers):
            layers += [nn.Linear(width, width, bias=False, dtype=torch.float64), nn.Tanh()]
    return layers


def head_of(width: int) -> nn.Linear:
    """A layer to the logits, in float64, the same for the same width."""
    with torch.random.fork_rng():
        torch.manual_seed(width)
        return nn.Linear(width, NUM_WORDS, bias=False, dtype=torch.float64)


def batches_of(num_batches: int, num_sequences: int, seq_len: int) -> Batches:
    """Pairs of token ids and targets, each of shape (b, s)."""
    generator = torch.Generator().manual_seed(num_batches + 10 * num_sequences + 100 * seq_len)
    shape = (num_batches, 2, num_sequences, seq_len)
    ids = torch.randint(NUM_WORDS, shape, generator=generator)
    return [(pair[0], pair[1]) for pair in ids.unbind()]


def batches_in(case: Case) -> Batches:
    """The batches that a case names."""
    return batches_of(case["num_batches"], case["num_sequences"], case["seq_len"])


def loop_cases(seed: int) -> list[Case]:
    """Three batches and four; one sequence and several; training and evaluation mode."""
    rng = random.Random(seed)
    cases = []
    for num_batches in (3, 3, 4, 3, 3):
        for num_sequences, is_training in ((1, True), (2, False), (1, False), (3, True)):
            case = {
                "num_batches": num_batches,
                "num_sequences": num_sequences,
                "seq_len": rng.choice((5, 6)),
                "width": rng.choice((20, 28)),
                "num_layers": 2,
                "is_training": is_training,
            }
            cases.append(case)
    return cases


def sample_cases(seed: int) -> list[Case]:
    """The same cases without the mode."""
    cases = loop_cases(seed)
    return [{name: size for name, size in case.items() if name != "is_training"} for case in cases]


def is_near(got: Any, wanted: float) -> bool:
    """Whether a number, or a tensor of one, equals an oracle's within the rounding of fp32."""
    number = got.detach() if isinstance(got, Tensor) else got
    try:
        return abs(float(number) - wanted) <= ROUNDING_OF_A_MEAN * max(1.0, abs(wanted))
    except (TypeError, ValueError, RuntimeError):
        return False


def nothing_held(*names: str) -> Callable[..., dict[str, int]]:
    """What a repaired loop gives: zero for each name."""
    return lambda **case: dict.fromkeys(names, 0)
