"""Check of one matrix product, forward and backward."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u01.shared.counts import COUNTERS, just_above, one_at_a_time
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


CHECK = Check(
    cases=matmul_cases,
    judge=EqualTo(measured_matmul_flops, *mistakes_of("u01-matmul-flops")),
    fallback="course_utils.formulas.flops.matmul_flops",
    answers=COUNTERS,
)
