"""Check of attention that keeps no copies made for a memory layout."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u03.shared.results_and_gradients import (
    FLOAT64_BYTES,
    NOTHING_WRONG,
    Function,
    kept,
    random_tensors,
    wrong_numbers,
)
from course_utils.reference.attention import attend
from course_utils.reference.fused import rotate


def layout_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query and multi-query; one sequence and several; odd lengths."""
    rng = random.Random(seed)
    names = ("num_sequences", "seq_len", "num_heads", "num_kv_heads", "head_dim")
    cases = []
    for kv, group in ((2, 1), (rng.randint(2, 3), 3), (2, 5), (3, 1)):
        for num_sequences in (1, 2, rng.randint(3, 4)):
            for seq_len in (rng.randrange(3, 11, 2), rng.randrange(11, 19, 2)):
                sizes = (num_sequences, seq_len, kv * group, kv, rng.choice((4, 6, 8)))
                cases.append(dict(zip(names, sizes, strict=True)))
    return cases


def _heads(
    num_sequences: int, seq_len: int, num_heads: int, num_kv_heads: int, head_dim: int
) -> list[Tensor]:
    """Queries, keys and values, before tokens and heads change places."""
    counts = (num_heads, num_kv_heads, num_kv_heads)
    shapes = [(num_sequences, seq_len, count, head_dim) for count in counts]
    return random_tensors(seq_len * num_heads, *shapes)


def _with_projection(attention: Function, case: Case) -> tuple[Function, nn.Linear]:
    """Attention and the output projection after it, which keeps its input."""
    width = case["num_heads"] * case["head_dim"]
    projection = nn.Linear(width, 3, bias=False, dtype=torch.float64)
    return lambda q, k, v: projection(attention(q, k, v, rotate)), projection


def observe_layout(answer: Any, case: Case) -> object:
    """Results and gradients of the student's attention; bytes with the projection after it."""
    inputs = _heads(**case)
    numbers = wrong_numbers(
        lambda q, k, v: answer(q, k, v, rotate),
        lambda q, k, v: attend(rotate(q), rotate(k), v),
        inputs,
    )
    whole, projection = _with_projection(answer, case)
    return numbers | kept(whole, inputs, projection)


def attend_with_rotation(q: Tensor, k: Tensor, v: Tensor, rotate: Function) -> Tensor:
    """The course's own answer: rotate while tokens come before heads."""
    return attend(rotate(q), rotate(k), v)


def wanted_of_layout(**case: int) -> dict[str, int]:
    """What the course's attention keeps, counted with the projection after it."""
    whole, projection = _with_projection(attend_with_rotation, dict(case))
    return NOTHING_WRONG | kept(whole, _heads(**case), projection)


def _also_keeps(extra: Callable[[int, int, int, int, int], int]) -> Callable[..., dict[str, int]]:
    """The right bytes and those of some extra entries."""

    def formula(*case: int) -> dict[str, int]:
        b, s, a, kv, d = case
        right = FLOAT64_BYTES * b * s * d * (2 * a + 2 * kv) + 8 * a * b * s
        return {"saved_bytes": right + FLOAT64_BYTES * extra(*case)}

    return formula


CHECK = Check(
    cases=layout_cases,
    reference=attend_with_rotation,
    observe=observe_layout,
    judge=EqualTo(
        wanted_of_layout,
        Mistake(
            "Your keys and values are kept once per query head. Which argument of fused attention "
            "makes that unnecessary?",
            _also_keeps(lambda b, s, a, kv, d: b * s * 2 * (a - kv) * d),
        ),
        Mistake(
            "The numbers are right, and one tensor as large as the queries is kept too many: it "
            "is a copy. In which order do tokens and heads of the queries lie in memory when "
            "fused attention gets them?",
            _also_keeps(lambda b, s, a, kv, d: b * s * a * d),
        ),
        together=True,
    ),
)
