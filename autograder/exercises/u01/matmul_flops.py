"""Check of one matrix product, forward and backward."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas import flops
from course_utils.instruments import count_flops


def matmul_cases(seed: int) -> list[Case]:
    """Square, odd and unequal sizes; one row, one column, one inner entry; a real layer."""
    rng = random.Random(seed)

    def size() -> int:
        return rng.randrange(3, 200, 2)

    square = size()
    sizes = [(2, 3, 5), (1, 1, 1), (square, square, square)]
    sizes += [(1, size(), size()), (size(), 1, size()), (size(), size(), 1)]
    sizes += [(size(), size(), size()) for _ in range(12)]
    sizes += [(rng.randint(1, 64) * 1024, 4096, 14336), (4096, 8192, rng.randint(2, 90_000))]
    return [dict(zip(("rows", "inner", "columns"), each, strict=True)) for each in sizes]


def measured_matmul_flops(rows: int, inner: int, columns: int) -> dict[str, int]:
    """FLOPs of a real product and its backward pass, counted on the meta device."""
    a = torch.empty(rows, inner, device="meta", requires_grad=True)
    b = torch.empty(inner, columns, device="meta", requires_grad=True)
    return count_flops(lambda: a @ b)._asdict()


FIRST_ADDITION = (
    "You leave out the first addition of each sum. Which convention does the exercise state?"
)


def _both(forward: int, backward: int) -> dict[str, int]:
    return {"forward_flops": forward, "backward_flops": backward}


CHECK = Check(
    cases=matmul_cases,
    reference=flops.matmul_flops,
    judge=EqualTo(
        measured_matmul_flops,
        Mistake(
            "Half of the backward pass. How many products does it make, and what does each do "
            "besides multiplying?",
            lambda m, d, n: {"backward_flops": 2 * m * d * n},
        ),
        Mistake(
            "A quarter of the backward pass. How many products are there, and what does each do "
            "besides multiplying?",
            lambda m, d, n: {"backward_flops": m * d * n},
        ),
        Mistake(
            "That is forward and backward together. Which part of it is the backward pass alone?",
            lambda m, d, n: {"backward_flops": 6 * m * d * n},
        ),
        Mistake(
            "Exactly half: you count the multiplications. What happens to the products after that?",
            lambda m, d, n: _both(m * d * n, 2 * m * d * n),
        ),
        Mistake(
            "That is one operation for each entry of the result. How many numbers meet in one "
            "entry?",
            lambda m, d, n: _both(m * n, 2 * m * n),
        ),
        Mistake(
            "That is two operations for each entry of the result. How many pairs of numbers meet "
            "in one entry?",
            lambda m, d, n: _both(2 * m * n, 4 * m * n),
        ),
        Mistake(
            "Both numbers are there, each under the other's name. Which pass makes two products?",
            lambda m, d, n: _both(4 * m * d * n, 2 * m * d * n),
        ),
        Mistake(
            FIRST_ADDITION,
            lambda m, d, n: {"forward_flops": m * n * (2 * d - 1)},
        ),
        Mistake(
            FIRST_ADDITION,
            lambda m, d, n: {"backward_flops": m * d * (2 * n - 1) + d * n * (2 * m - 1)},
        ),
    ),
)
