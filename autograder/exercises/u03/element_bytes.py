"""Check of the bytes a GPT layer keeps in any precision, with and without dropout."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u03.shared.layer_parts import ELEMENT_BYTES
from course_utils.configs import Kernels, RunConfig, gpt, precision
from course_utils.formulas.activations import layer_saved_bytes
from course_utils.instruments import count_saved_bytes
from course_utils.reference import Block
from course_utils.reference.dtypes import FLOATS


def element_cases(seed: int) -> list[Case]:
    """Two and four bytes, with and without dropout, one head and several."""
    rng = random.Random(seed)
    names = ("seq_len", "hidden_size", "num_heads", "element_bytes", "has_dropout")
    cases = []
    for num_heads in (1, 2, rng.randint(3, 5), rng.randint(6, 9), rng.randint(10, 12)):
        for element_bytes in ELEMENT_BYTES:
            for has_dropout in (True, False):
                width = num_heads * rng.randint(3, 11)
                sizes = (rng.randrange(13, 99, 2), width, num_heads, element_bytes, has_dropout)
                cases.append(dict(zip(names, sizes, strict=True)))
    return cases


def measured_layer_bytes(
    seq_len: int, hidden_size: int, num_heads: int, element_bytes: int, has_dropout: bool
) -> int:
    """A real layer on the meta device, for one sequence."""
    dtype, dropout = FLOATS[element_bytes], 0.1 if has_dropout else 0.0
    kernels = Kernels(is_attention_fused=False, dropout_fraction=dropout)
    block = Block(gpt(hidden_size, num_heads), 0, "meta", dtype, kernels)
    x = torch.empty(1, seq_len, hidden_size, dtype=dtype, device="meta", requires_grad=True)
    return count_saved_bytes(lambda: block(x), block).total_bytes


def layer_bytes(
    seq_len: int, hidden_size: int, num_heads: int, element_bytes: int, has_dropout: bool
) -> int:
    """The course's own answer, under the name that the exercise asks for."""
    dropout = 0.1 if has_dropout else 0.0
    kernels = Kernels(is_attention_fused=False, dropout_fraction=dropout)
    used = precision(ELEMENT_BYTES[element_bytes])
    run = RunConfig(seq_len=seq_len, precision=used, kernels=kernels)
    return sum(layer_saved_bytes(gpt(hidden_size, num_heads), run).values())


CHECK = Check(
    cases=element_cases,
    reference=layer_bytes,
    judge=EqualTo(
        measured_layer_bytes,
        Mistake(
            "You double everything in fp32. Does a decision of the dropout become wider?",
            lambda s, h, a, e, drop: (
                e * s * (17 * h if drop else 16 * h)
                + e * a * s * s * 5 // 2 * drop
                + (1 - drop) * e * a * s * s
                + 16 * s
            ),
        ),
        Mistake(
            "Your masks stay where nothing is dropped. Who needs them?",
            lambda s, h, a, e, drop: (
                s * h * (16 * e + 2) + a * s * s * ((2 if drop else 1) * e + 1) + 16 * s
            ),
        ),
        Mistake(
            "Without dropout you keep the weights of attention twice. What else was the second "
            "copy than the first after dropout?",
            lambda s, h, a, e, drop: (
                s * h * (16 * e + 2 * drop) + a * s * s * (2 * e + drop) + 16 * s
            ),
        ),
        Mistake(
            "The statistics of your norms change with the precision. In which one do they stay?",
            lambda s, h, a, e, drop: (
                s * h * (16 * e + 2 * drop) + a * s * s * ((1 + drop) * e + drop) + 8 * e * s
            ),
        ),
        Mistake(
            "The statistics of the norms are missing. Which two numbers per token and norm are "
            "kept?",
            lambda s, h, a, e, drop: (
                s * h * (16 * e + 2 * drop) + a * s * s * ((1 + drop) * e + drop)
            ),
        ),
        Mistake(
            "That is the lecture's formula, whatever the precision and the dropout. Which of its "
            "parts are masks, and which are numbers of 16 bits?",
            lambda s, h, a, e, drop: 34 * s * h + 5 * a * s * s + 16 * s,
        ),
    ),
)
