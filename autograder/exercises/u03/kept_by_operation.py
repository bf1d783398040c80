"""Check of what single operations keep for their backward pass."""

import random

import torch
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u03.shared.counters import COUNTERS, just_above
from course_utils.formulas.activations import kept_by_operation
from course_utils.instruments import count_saved_bytes
from course_utils.reference.attention import drop
from course_utils.reference.fused import RMSNorm

NAMES = ("num_sequences", "seq_len", "hidden_size", "num_heads")


def kept_cases(seed: int) -> list[Case]:
    """One sequence and several, one head and several, odd lengths, lengths above the width.

    The last counts are beyond a float.
    """
    rng = random.Random(seed)
    sizes = [(1, 3, 8, 2), (rng.randint(2, 9), 3, rng.randint(4, 9), 1)]
    for num_sequences in (1, rng.randint(2, 9)):
        for num_heads in (1, rng.randint(2, 5), rng.randint(6, 9)):
            for seq_len in (rng.randrange(3, 30, 2), rng.randrange(31, 60, 2), rng.randint(90, 99)):
                sizes.append((num_sequences, seq_len, num_heads * rng.randint(3, 8), num_heads))
    sizes.append((3, just_above(28, rng), 5 * just_above(26, rng), 5))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured_kept_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """What autograd keeps for each operation alone, in bf16 on the meta device, without weights."""
    x, y = (_empty(num_sequences, seq_len, hidden_size) for _ in range(2))
    scores = _empty(num_sequences, num_heads, seq_len, seq_len)
    linear = torch.nn.Linear(hidden_size, 3, dtype=torch.bfloat16, device="meta")
    norm = RMSNorm(hidden_size, "meta", torch.bfloat16)
    calls = {
        "linear": lambda: linear(x),
        "rms_norm": lambda: norm(x),
        "gelu": lambda: F.gelu(x),
        "softmax": lambda: scores.softmax(-1),
        "dropout": lambda: drop(x, 0.1),
        "addition": lambda: x + y,
    }
    return {name: count_saved_bytes(call, linear, norm).total_bytes for name, call in calls.items()}


def _empty(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device="meta", requires_grad=True)


def _of_one_sequence(b: int, s: int, h: int, a: int) -> dict[str, int]:
    """What each operation keeps, of one sequence."""
    return {name: kept // b for name, kept in kept_by_operation(b, s, h, a).items() if kept}


CHECK = Check(
    cases=kept_cases,
    judge=EqualTo(
        measured_kept_bytes,
        Symptom(
            "Every wrong entry counts only one sequence. How many are there?",
            _of_one_sequence,
        ),
        *mistakes_of("u03-kept-by-operation"),
    ),
    fallback="course_utils.formulas.activations.kept_by_operation",
    answers=COUNTERS,
)
