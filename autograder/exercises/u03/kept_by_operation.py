"""Check of what single operations keep for their backward pass."""

import random

import torch
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
LINEAR, GELU, NORM = '"linear": hidden', '"gelu": hidden', "hidden + 4 * tokens"
SOFTMAX, DROPOUT, ADDITION = (
    "2 * num_heads * tokens * seq_len",
    '"dropout": tokens * hidden_size',
    '"addition": 0',
)


def _edit(hint: str, old: str, new: str) -> Edit:
    """A mistake in one of the six entries."""
    return Edit(hint, {old: new}, points=2.5)


EDITS = (
    _edit(
        "Your addition keeps its inputs. What is the derivative of x + y with respect to x?",
        ADDITION,
        '"addition": 2 * hidden',
    ),
    _edit(
        "Your addition keeps a tensor. What is the derivative of x + y with respect to x?",
        ADDITION,
        '"addition": hidden',
    ),
    _edit(
        "Your dropout keeps 2 bytes per number. What does it need to know about each number?",
        DROPOUT,
        '"dropout": hidden',
    ),
    _edit(
        "Your dropout keeps 3 bytes per number. What does its derivative contain besides the "
        "scale?",
        DROPOUT,
        '"dropout": hidden + tokens * hidden_size',
    ),
    _edit(
        "Your dropout keeps nothing. How does backward know which numbers were dropped?",
        DROPOUT,
        '"dropout": 0',
    ),
    _edit(
        "Your dropout keeps one byte per token. Is a token dropped as a whole?",
        DROPOUT,
        '"dropout": tokens',
    ),
    _edit(
        "Your dropout keeps one bit per number. What does the exercise say about the mask?",
        DROPOUT,
        '"dropout": tokens * hidden_size / 8',
    ),
    _edit(
        "Your softmax is as large as the hidden state. What is the shape of the scores?",
        SOFTMAX,
        "hidden",
    ),
    _edit(
        "Your softmax is that of one head. What is the shape of the scores?",
        SOFTMAX,
        "2 * tokens * seq_len",
    ),
    _edit(
        "Your softmax keeps 4 bytes per score. How many tensors does it keep, and how wide are "
        "their numbers?",
        SOFTMAX,
        "4 * num_heads * tokens * seq_len",
    ),
    _edit(
        "Your softmax keeps one number per row of scores. Which tensor does its derivative need?",
        SOFTMAX,
        "2 * num_heads * tokens",
    ),
    _edit(
        "Your softmax is that of one head and one sequence. What is the shape of the scores?",
        SOFTMAX,
        "2 * seq_len**2",
    ),
    _edit(
        "Your norm keeps only its input. Which number per token would backward have to "
        "recompute, and in which precision is it kept?",
        NORM,
        "hidden",
    ),
    _edit(
        "Your norm keeps its number per token in bf16. What does the exercise say about it?",
        NORM,
        "hidden + 2 * tokens",
    ),
    _edit(
        "Your norm keeps its number only for the tokens of one sequence. How many tokens are in "
        "the whole batch?",
        NORM,
        "hidden + 4 * seq_len",
    ),
    _edit(
        "Your norm keeps two numbers per token, as LayerNorm does. Does RMSNorm subtract a mean?",
        NORM,
        "hidden + 8 * tokens",
    ),
    _edit(
        "Your norm keeps one number per sequence. Over which axis of x does it take the mean?",
        NORM,
        "hidden + 4 * num_sequences",
    ),
    _edit(
        "Your norm keeps only one number per token. Which tensor does the gradient of its "
        "weight contain?",
        NORM,
        "4 * tokens",
    ),
    _edit(
        "Your norm keeps its result as well as its input. Which of the two can be recomputed "
        "from the other and one number per token?",
        NORM,
        "2 * hidden + 4 * tokens",
    ),
    _edit(
        "Your linear layer keeps a number of numbers, not of bytes. How many bytes does a bf16 "
        "number take?",
        LINEAR,
        '"linear": tokens * hidden_size',
    ),
    _edit(
        "Your linear layer keeps 4 bytes per number of x. Which tensor does the gradient of its "
        "weight contain, and how wide are its numbers?",
        LINEAR,
        '"linear": 2 * hidden',
    ),
    _edit(
        "Your GELU keeps 4 bytes per number of x. Which tensor does its derivative need, and "
        "how wide are its numbers?",
        GELU,
        '"gelu": 2 * hidden',
    ),
    *(
        _edit(
            "Your linear layer keeps its weight. Which tensors does the exercise leave out, and "
            "which one does the gradient of the weight contain?",
            LINEAR,
            f'"linear": {kept}',
        )
        for kept in ("2 * hidden_size**2", "hidden + 2 * hidden_size**2")
    ),
    *(
        _edit(
            "Your norm keeps a second number for each number of x. How many roots of a mean "
            "does a token have?",
            NORM,
            f"hidden{kept}",
        )
        for kept in (" + 4 * tokens * hidden_size", " + hidden")
    ),
    _edit(
        "Your dropout keeps one bit per number, rounded down. What does the exercise say about "
        "the mask?",
        DROPOUT,
        '"dropout": tokens * hidden_size // 8',
    ),
    _edit(
        "Your GELU keeps nothing. Is its slope the same everywhere?",
        GELU,
        '"gelu": 0',
    ),
    _edit(
        "Your GELU keeps one byte per number, which would do for a relu. Does GELU have only "
        "two slopes?",
        GELU,
        '"gelu": tokens * hidden_size',
    ),
)

CHECK = Check(
    cases=kept_cases,
    judge=EqualTo(
        measured_kept_bytes,
        Symptom(
            "Every wrong entry counts only one sequence. How many are there?",
            _of_one_sequence,
        ),
        *edited("u03-kept-by-operation", EDITS),
    ),
    fallback="course_utils.formulas.activations.kept_by_operation",
    answers=COUNTERS,
)
