"""Check of one matrix product, forward and backward."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u01.shared.counts import (
    AS_FLOAT32,
    COUNTERS,
    just_above,
    one_at_a_time,
)
from course_utils.instruments import count_flops


def matmul_cases(seed: int) -> list[Case]:
    """Odd and unequal sizes; one row, column or inner entry; beyond a float and 64 bits."""
    rng = random.Random(seed)
    names = "rows", "inner", "columns"

    def size() -> int:
        return rng.randrange(3, 200, 2)

    square = size()
    sizes = [(2, 3, 5), (1, rng.randint(2, 9), 1), (square, square, square)]
    sizes += [(1, size(), size()), (size(), 1, size()), (size(), size(), 1)]
    sizes += [(size(), size(), size()) for _ in range(10)]
    sizes += [(just_above(21, rng), just_above(22, rng), just_above(22, rng))]
    sizes += [(rng.randint(1, 64) * 1024, 4096, 14336), (4096, 8192, rng.randint(2, 90_000))]
    cases = [dict(zip(names, each, strict=True)) for each in sizes]
    return [*cases, *one_at_a_time(dict.fromkeys(names, size()), dict.fromkeys(names, 2 * size()))]


def measured_matmul_flops(rows: int, inner: int, columns: int) -> dict[str, int]:
    """FLOPs of a real product and its backward pass, counted on the meta device."""
    a = torch.empty(rows, inner, device="meta", requires_grad=True)
    b = torch.empty(inner, columns, device="meta", requires_grad=True)
    return count_flops(lambda: a @ b)._asdict()


FIRST_ADDITION = (
    "You leave out the first addition of each sum. What does the course's convention say?"
)
FORWARD, BACKWARD = "2 * rows * inner * columns", "2 * one_product"
EDITS = (
    Edit(AS_FLOAT32, {FORWARD: "int(torch.tensor(2.0 * rows * inner * columns))"}),
    Edit(
        "Your backward pass is half. Is one of its products missing, or do you leave out the "
        "additions?",
        {BACKWARD: "one_product"},
        points=1.0,
    ),
    Edit(
        "Your backward pass is a quarter. Which two factors of two are missing?",
        {BACKWARD: "one_product // 2"},
        points=1.0,
    ),
    Edit(
        "That is forward and backward together. How much of it is the backward pass alone?",
        {BACKWARD: "3 * one_product"},
        points=1.0,
    ),
    Edit(
        "Exactly half: you count only the multiplications. What happens to the products after "
        "that?",
        {FORWARD: "rows * inner * columns"},
    ),
    Edit(
        "That is one operation per entry of the result. How many multiplications does one entry "
        "take?",
        {FORWARD: "rows * columns"},
    ),
    Edit(
        "That is two operations per entry of the result. How many pairs of numbers meet in one "
        "entry?",
        {FORWARD: "2 * rows * columns"},
    ),
    Edit(
        "Your two numbers are swapped. Which pass makes two products?",
        {
            ': one_product, "b': ': two_gradients, "b',
            'd_flops": two_gradients}': 'd_flops": one_product}',
        },
    ),
    Edit(FIRST_ADDITION, {FORWARD: "rows * columns * (2 * inner - 1)"}),
    Edit(
        FIRST_ADDITION,
        {
            FORWARD: "rows * columns * (2 * inner - 1)",
            BACKWARD: "rows * inner * (2 * columns - 1) + inner * columns * (2 * rows - 1)",
        },
    ),
)

CHECK = Check(
    cases=matmul_cases,
    judge=EqualTo(measured_matmul_flops, *edited("u01-matmul-flops", EDITS)),
    fallback="course_utils.formulas.flops.matmul_flops",
    answers=COUNTERS,
)
