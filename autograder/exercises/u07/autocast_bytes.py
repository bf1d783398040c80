"""Check of what a feed-forward block keeps under autocast: copies of weights, and activations."""

import random

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.instruments import count_saved_bytes

NAMES = ("num_tokens", "hidden_size", "ffn_size", "num_calls", "wants_input_grad")
BF16_BYTES, FP32_BYTES = 2, 4
Parts = dict[str, int]


def kept_bytes(
    num_tokens: int, hidden_size: int, ffn_size: int, num_calls: int, wants_input_grad: bool
) -> Parts:
    """The course's own answer."""
    matrix = BF16_BYTES * hidden_size * ffn_size
    is_first_needed = wants_input_grad or num_calls > 1
    inputs = num_tokens * (hidden_size + ffn_size + ffn_size)
    return {
        "weights": matrix * (2 if is_first_needed else 1),
        "activations": num_calls * BF16_BYTES * inputs,
    }


def autocast_cases(seed: int) -> list[Case]:
    """One call and several, on an input that requires a gradient or does not."""
    rng = random.Random(seed)
    sizes: list[tuple[int, int, int, int, bool]] = [(3, 4, 8, 1, False)]
    for num_calls in (1, 2, 3, 1, 4):
        for wants_input_grad in (False, True, False, True):
            # three different sizes, so that shapes tell weights from activations
            tokens, hidden, inner = rng.sample(range(2, 24), 3)
            sizes.append((tokens, hidden, inner, num_calls, wants_input_grad))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured_bytes(
    num_tokens: int, hidden_size: int, ffn_size: int, num_calls: int, wants_input_grad: bool
) -> Parts:
    """What autograd keeps of a real block called several times in a row under autocast."""
    block = nn.Sequential(
        nn.Linear(hidden_size, ffn_size), nn.GELU(), nn.Linear(ffn_size, hidden_size)
    )
    given = torch.ones(num_tokens, hidden_size, requires_grad=wants_input_grad)

    def call() -> Tensor:
        x = given
        with torch.autocast("cpu", torch.bfloat16):
            for _ in range(num_calls):
                x = block(x)
        return x

    kept = count_saved_bytes(call, block).tensors
    weight_shapes = {(hidden_size, ffn_size), (ffn_size, hidden_size)}
    return {
        "weights": sum(each.storage_bytes for each in kept if each.shape in weight_shapes),
        "activations": sum(each.storage_bytes for each in kept if each.shape not in weight_shapes),
    }


CHECK = Check(
    cases=autocast_cases,
    reference=kept_bytes,
    judge=EqualTo(
        measured_bytes,
        Mistake(
            "Your weights are kept as they are and cost nothing. In which precision does the "
            "product read them, and is that the precision of the parameter?",
            lambda s, h, f, n, wants: {"weights": 0},
        ),
        Mistake(
            "Both copies are always kept with you. Which gradient is made with the first weight, "
            "and does anybody ask for it in the first call?",
            lambda s, h, f, n, wants: {"weights": 2 * BF16_BYTES * h * f},
        ),
        Mistake(
            "Your copies of the weights have 4 bytes for each number. What does autocast turn them "
            "into?",
            lambda s, h, f, n, wants: {
                "weights": 2 * kept_bytes(s, h, f, n, wants)["weights"],
            },
        ),
        Mistake(
            "A weight is copied for each call with you. What does autocast remember until its "
            "region ends?",
            lambda s, h, f, n, wants: {
                "weights": BF16_BYTES * h * f * (2 * n if wants else 2 * n - 1)
            },
        ),
        Mistake(
            "A weight is copied for each call with you, also one that no gradient needs. What does "
            "autocast remember until its region ends, and which gradient is made with the weight?",
            lambda s, h, f, n, wants: {"weights": 2 * BF16_BYTES * h * f * n},
        ),
        Mistake(
            "The first weight is kept with you only if the given input wants a gradient. What is "
            "the input of the second call?",
            lambda s, h, f, n, wants: {"weights": BF16_BYTES * h * f * (2 if wants else 1)},
        ),
        Mistake(
            "You count the biases' copies. In which derivative of a linear layer does a bias "
            "stand?",
            lambda s, h, f, n, wants: {
                "weights": kept_bytes(s, h, f, n, wants)["weights"] + BF16_BYTES * (h + f)
            },
        ),
        Mistake(
            "Your activations have 4 bytes for each number. Which tensors does autograd keep, "
            "those that came in or those that the products read?",
            lambda s, h, f, n, wants: {"activations": n * FP32_BYTES * s * (h + 2 * f)},
        ),
        Mistake(
            "The input is kept in fp32 with you. Which one does the product read, and which one "
            "does autograd keep?",
            lambda s, h, f, n, wants: {
                "activations": BF16_BYTES * s * (n * (h + 2 * f) + h),
            },
        ),
        Mistake(
            "The input is kept twice with you, in fp32 and in bf16. Whose derivative needs the one "
            "in fp32?",
            lambda s, h, f, n, wants: {
                "activations": BF16_BYTES * s * (n * (h + 2 * f) + 2 * h),
            },
        ),
        Mistake(
            "One tensor of the inner width has 4 bytes for each number with you. In which "
            "precision does the result of a product arrive at GELU, and does autocast change it?",
            lambda s, h, f, n, wants: {"activations": n * BF16_BYTES * s * (h + 3 * f)},
        ),
        Mistake(
            "You count one tensor of the inner width for each call. What goes into GELU, and what "
            "comes out?",
            lambda s, h, f, n, wants: {"activations": n * BF16_BYTES * s * (h + f)},
        ),
        Mistake(
            "You count the result of the block as well. Whose derivative needs it?",
            lambda s, h, f, n, wants: {"activations": n * BF16_BYTES * s * (2 * h + 2 * f)},
        ),
        Mistake(
            "Your activations are those of one call. What does each further call keep?",
            lambda s, h, f, n, wants: {"activations": BF16_BYTES * s * (h + 2 * f)},
        ),
    ),
)
