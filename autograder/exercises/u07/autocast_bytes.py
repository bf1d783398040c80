"""Check of what a feed-forward block keeps under autocast: copies of weights, and activations."""

import contextlib
import random

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.instruments import count_saved_bytes, fake_tensors

NAMES = ("num_tokens", "hidden_size", "ffn_size", "num_calls", "wants_input_grad")
HUGE = 2**27


def autocast_cases(seed: int) -> list[Case]:
    """One call and several, on an input that requires a gradient or does not.

    Counts of the last two are more than a float holds.
    """
    rng = random.Random(seed)
    sizes: list[tuple[int, int, int, int, bool]] = [(3, 4, 8, 1, False)]
    for num_calls in (1, 2, 3, 1, 4):
        for wants_input_grad in (False, True, False, True):
            # three different sizes, so that shapes tell weights from activations
            tokens, hidden, inner = rng.sample(range(2, 24), 3)
            sizes.append((tokens, hidden, inner, num_calls, wants_input_grad))
    for wants_input_grad in (False, True):
        tokens, hidden, inner = rng.sample(range(HUGE + 1, HUGE + 999, 2), 3)
        sizes.append((tokens, hidden, inner, 1, wants_input_grad))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured_bytes(
    num_tokens: int, hidden_size: int, ffn_size: int, num_calls: int, wants_input_grad: bool
) -> dict[str, int]:
    """What autograd keeps of a real block called several times in a row under autocast.

    Where no memory holds its tensors they have sizes and no numbers.
    """

    def call() -> Tensor:
        x = given
        with torch.autocast("cpu", torch.bfloat16):
            for _ in range(num_calls):
                x = block(x)
        return x

    with fake_tensors() if num_tokens >= HUGE else contextlib.nullcontext():
        block = nn.Sequential(
            nn.Linear(hidden_size, ffn_size), nn.GELU(), nn.Linear(ffn_size, hidden_size)
        )
        given = torch.ones(num_tokens, hidden_size, requires_grad=wants_input_grad)
        kept = count_saved_bytes(call, block).tensors
    weight_shapes = {(hidden_size, ffn_size), (ffn_size, hidden_size)}
    return {
        "weights": sum(each.storage_bytes for each in kept if each.shape in weight_shapes),
        "activations": sum(each.storage_bytes for each in kept if each.shape not in weight_shapes),
    }


CHECK = Check(
    cases=autocast_cases,
    judge=EqualTo(
        measured_bytes,
        *mistakes_of("u07-autocast-bytes"),
    ),
    fallback="course_utils.formulas.activations.autocast_saved_bytes",
    answers=(
        "course_utils.instruments.saved_bytes",
        "torch.autograd.graph.saved_tensors_hooks",
    ),
)
