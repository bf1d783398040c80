"""Check of the bytes a GPT layer keeps in any precision, with and without dropout."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u03.shared.counters import COUNTERS, just_above
from course_utils.configs import Kernels, gpt
from course_utils.instruments import count_saved_bytes
from course_utils.reference import Block
from course_utils.reference.dtypes import FLOATS

NAMES = ("seq_len", "hidden_size", "num_heads", "element_bytes", "has_dropout")


def element_cases(seed: int) -> list[Case]:
    """Two and four bytes, with and without dropout, one head and several, and beyond a float."""
    rng = random.Random(seed)
    kinds = [(e, has_dropout) for e in (2, 4) for has_dropout in (True, False)]
    sizes = [(rng.randrange(3, 13, 2), 2 * rng.randint(3, 9), 2)]
    for num_heads in (1, 2, rng.randint(3, 5), rng.randint(6, 9), rng.randint(10, 12)):
        sizes.append((rng.randrange(13, 99, 2), num_heads * rng.randint(3, 11), num_heads))
    sizes.append((just_above(27, rng), 3 * just_above(25, rng), 3))
    cases = [(3, 8, 2, 4, True), *((*each, *kind) for each in sizes for kind in kinds)]
    return [dict(zip(NAMES, each, strict=True)) for each in cases]


def measured_layer_bytes(
    seq_len: int, hidden_size: int, num_heads: int, element_bytes: int, has_dropout: bool
) -> int:
    """A real layer on the meta device, for one sequence."""
    dtype, dropout = FLOATS[element_bytes], 0.1 if has_dropout else 0.0
    kernels = Kernels(is_attention_fused=False, dropout_fraction=dropout)
    block = Block(gpt(hidden_size, num_heads), 0, "meta", dtype, kernels)
    x = torch.empty(1, seq_len, hidden_size, dtype=dtype, device="meta", requires_grad=True)
    return count_saved_bytes(lambda: block(x), block).total_bytes


CHECK = Check(
    cases=element_cases,
    judge=EqualTo(measured_layer_bytes, *mistakes_of("u03-element-bytes")),
    answers=COUNTERS,
)
