"""Check of what a feed-forward block keeps under autocast: copies of weights, and activations."""

import contextlib
import random

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


# The model answer's pieces.
ONE, TWO, IS_FIRST_NEEDED = "copies = 1", "copies = 2", "wants_input_grad or num_calls >= 2"
WEIGHTS, PER_CALL = "2 * copies * numbers_of_weight", "2 * num_calls * "
TO_FIRST, INNER = "num_tokens * hidden_size", "2 * num_tokens"
SUM = "(to_first + to_gelu_and_second)"

MISTAKES: tuple[tuple[str, *tuple[dict[str, str], ...]], ...] = (
    (
        "Your weights are kept as they are and cost nothing. In which precision does the product "
        "read them, and is that the parameter's?",
        {WEIGHTS: "0"},
    ),
    (
        "You always keep both copies. Which gradient needs the first weight, and does anybody "
        "ask for it in the first call?",
        {ONE: TWO},
    ),
    (
        "Your copies of the weights take 4 bytes per number. What does autocast turn them into?",
        {WEIGHTS: "4 * copies * numbers_of_weight"},
        {WEIGHTS: "4 * copies * numbers_of_weight * num_calls"},
    ),
    (
        "You copy both weights in every call, even one that no gradient needs. What does "
        "autocast keep until its region ends, and which gradient needs the weight?",
        {TWO: "pass", ONE: "copies = 2 * num_calls"},
    ),
    (
        "You keep the first weight only if the given input requires a gradient. What is the "
        "input of the second call?",
        {IS_FIRST_NEEDED: "wants_input_grad"},
    ),
    (
        "You keep the first weight only if there is a second call. Which gradient needs it, and "
        "who may ask for that in the first call?",
        {IS_FIRST_NEEDED: "num_calls >= 2"},
    ),
    (
        "You copy a weight in every call. What does autocast keep until its region ends?",
        {TWO: "pass", ONE: "copies = 2 * num_calls - (not wants_input_grad)"},
        {TWO: "pass", ONE: "copies = num_calls"},
        {IS_FIRST_NEEDED: "wants_input_grad", WEIGHTS: f"{WEIGHTS} * num_calls"},
    ),
    (
        "You always keep one copy. Which weight does the gradient of an input need, and which "
        "inputs require one?",
        {TWO: ONE},
    ),
    (
        "You count copies of the biases. Which gradient of a linear layer needs its bias?",
        {WEIGHTS: f"{WEIGHTS} + 2 * (hidden_size + ffn_size)"},
    ),
    (
        "Your activations take 4 bytes per number. Which tensors does autograd keep: those that "
        "came in, or those that the products read?",
        {PER_CALL: "4 * num_calls * "},
    ),
    (
        "You count one tensor of width h too many, as if the input were kept in fp32, or the "
        "last result as well. What does a product read, and in which precision?",
        {SUM: f"{SUM} + 2 * {TO_FIRST}"},
    ),
    (
        "You keep the input twice, in fp32 and in bf16. Which gradient needs the one in fp32?",
        {SUM: f"{SUM} + 4 * {TO_FIRST}"},
    ),
    (
        "In each call you count one tensor of width h too many, as if the result were kept, or "
        "the input in fp32. Which gradient needs the result, and what does a product read?",
        {SUM: "(2 * to_first + to_gelu_and_second)"},
    ),
    (
        "One of your tensors of width f takes 4 bytes per number. In which precision does a "
        "product's result arrive at GELU, and does autocast change it?",
        {INNER: "3 * num_tokens"},
    ),
    (
        "You count one tensor of width f per call. What goes into GELU, and what comes out?",
        {INNER: "num_tokens"},
    ),
    (
        "You leave out what the first layer reads. Which of its gradients needs its input?",
        {SUM: "to_gelu_and_second"},
        {SUM: f"{SUM} - 2 * (not wants_input_grad) * {TO_FIRST}"},
    ),
    (
        "You count what one call hands to the next twice, as its result and as the next one's "
        "input. How many tensors are these?",
        {PER_CALL: "2 * (num_calls - 1) * to_first + 2 * num_calls * "},
    ),
    (
        "Your activations are those of one call. What does each further call keep?",
        {PER_CALL: "2 * "},
    ),
)

CHECK = Check(
    cases=autocast_cases,
    judge=EqualTo(
        measured_bytes,
        *edited(
            "u07-autocast-bytes",
            [Edit(hint, each, points=0.75) for hint, *edits in MISTAKES for each in edits],
        ),
    ),
    fallback="course_utils.formulas.activations.autocast_saved_bytes",
    answers=(
        "course_utils.instruments.saved_bytes",
        "torch.autograd.graph.saved_tensors_hooks",
    ),
)
