"""Check of what single operations keep for their backward pass."""

import random

import torch
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.instruments import count_saved_bytes
from course_utils.reference.attention import drop
from course_utils.reference.fused import RMSNorm

NAMES = ("num_sequences", "seq_len", "hidden_size", "num_heads")
BF16_BYTES = 2


def kept_cases(seed: int) -> list[Case]:
    """One sequence and several, one head and several, odd lengths, lengths above the width."""
    rng = random.Random(seed)
    sizes = [(1, 3, 4, 2), (2, 3, 4, 1)]
    for num_sequences in (1, rng.randint(2, 9)):
        for num_heads in (1, rng.randint(2, 5), rng.randint(6, 9)):
            for seq_len in (rng.randrange(3, 30, 2), rng.randrange(31, 60, 2), rng.randint(90, 99)):
                sizes.append((num_sequences, seq_len, num_heads * rng.randint(3, 8), num_heads))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured_kept_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """What autograd keeps for each operation alone, in bf16, without its weights."""
    x, y = (_ones(num_sequences, seq_len, hidden_size) for _ in range(2))
    scores = _ones(num_sequences, num_heads, seq_len, seq_len)
    linear = torch.nn.Linear(hidden_size, 3, dtype=torch.bfloat16)
    norm = RMSNorm(hidden_size, "cpu", torch.bfloat16)
    calls = {
        "linear": lambda: linear(x),
        "rms_norm": lambda: norm(x),
        "gelu": lambda: F.gelu(x),
        "softmax": lambda: scores.softmax(-1),
        "dropout": lambda: drop(x, 0.1),
        "addition": lambda: x + y,
    }
    return {name: count_saved_bytes(call, linear, norm).total_bytes for name, call in calls.items()}


def _ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bfloat16, requires_grad=True)


def kept_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """The course's own answer, under the name that the exercise asks for."""
    tokens = num_sequences * seq_len
    hidden = BF16_BYTES * tokens * hidden_size
    return {
        "linear": hidden,
        "rms_norm": hidden + 4 * tokens,
        "gelu": hidden,
        "softmax": BF16_BYTES * num_heads * seq_len * tokens,
        "dropout": tokens * hidden_size,
        "addition": 0,
    }


CHECK = Check(
    cases=kept_cases,
    reference=kept_bytes,
    judge=EqualTo(
        measured_kept_bytes,
        Mistake(
            "You measure one sequence. How many are there?",
            lambda b, s, h, a: {
                name: kept // b for name, kept in kept_bytes(b, s, h, a).items() if kept
            },
        ),
        Mistake(
            "Your addition keeps its inputs. What is the derivative of x + y with respect to x?",
            lambda b, s, h, a: {"addition": 4 * b * s * h},
        ),
        Mistake(
            "Your addition keeps a tensor. What is the derivative of x + y with respect to x?",
            lambda b, s, h, a: {"addition": 2 * b * s * h},
        ),
        Mistake(
            "Your dropout keeps numbers in bf16. How many bytes does it need to know which "
            "numbers were dropped?",
            lambda b, s, h, a: {"dropout": 2 * b * s * h},
        ),
        Mistake(
            "Your dropout keeps 3 bytes for each number. Which tensor does its derivative contain?",
            lambda b, s, h, a: {"dropout": 3 * b * s * h},
        ),
        Mistake(
            "Your softmax is as large as the hidden state. What is the shape of the scores?",
            lambda b, s, h, a: {"softmax": 2 * b * s * h},
        ),
        Mistake(
            "Your softmax has one head. Which shape does the exercise give to the scores?",
            lambda b, s, h, a: {"softmax": 2 * b * s * s},
        ),
        Mistake(
            "Your softmax keeps 4 bytes for each score. How many tensors does it need, and how "
            "wide are their numbers?",
            lambda b, s, h, a: {"softmax": 4 * b * a * s * s},
        ),
        Mistake(
            "Your norm keeps its input alone. Which number per token would it otherwise compute "
            "again, and in which precision?",
            lambda b, s, h, a: {"rms_norm": 2 * b * s * h},
        ),
        Mistake(
            "Your norm keeps its number per token in bf16. What does the exercise say about it?",
            lambda b, s, h, a: {"rms_norm": 2 * b * s * h + 2 * b * s},
        ),
        Mistake(
            "Your norm keeps two numbers per token, as LayerNorm does. Does RMSNorm subtract a "
            "mean?",
            lambda b, s, h, a: {"rms_norm": 2 * b * s * h + 8 * b * s},
        ),
        Mistake(
            "Those are numbers, not bytes. How many bytes has one in bf16?",
            lambda b, s, h, a: {"linear": b * s * h},
        ),
        Mistake(
            "Your linear layer keeps 4 bytes for each number of x. Which tensor stands in the "
            "gradient of its weight, and how wide are its numbers?",
            lambda b, s, h, a: {"linear": 4 * b * s * h},
        ),
        Mistake(
            "Your GELU keeps 4 bytes for each number of x. On which tensor does its derivative "
            "depend, and how wide are its numbers?",
            lambda b, s, h, a: {"gelu": 4 * b * s * h},
        ),
        Mistake(
            "Your GELU keeps nothing. Is its slope the same everywhere?",
            lambda b, s, h, a: {"gelu": 0},
        ),
    ),
)
