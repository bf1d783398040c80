"""Check of the bytes that a matrix product must move."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u02.shared.sizes import COUNTERS, just_above
from course_utils.instruments import count_bytes

DTYPES = {1: torch.float8_e4m3fn, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}


def product_cases(seed: int) -> list[Case]:
    """Formats of one to eight bytes; one row, many rows, a layer of a real model.

    The last two counts are beyond 32 bits and beyond what a float holds.
    """
    rng = random.Random(seed)

    def case(rows: int, inner: int, columns: int, element_bytes: int) -> Case:
        return {
            **{"rows": rows, "inner": inner, "columns": columns},
            "element_bytes": element_bytes,
        }

    cases = [case(7, 3, 5, 2), case(rng.randint(2, 99), 3, 5, 4)]
    cases.append(case(1, 4096, 64 * rng.randint(99, 300), 2))
    for element_bytes in DTYPES:
        for rows in (1, rng.randrange(3, 99, 2), 8192):
            inner, columns = (rng.randrange(5, 999, 2) for _ in range(2))
            cases.append(case(rows, inner, columns, element_bytes))
        cases.append(case(rng.randrange(3, 99), 1, rng.randrange(5, 99), element_bytes))
    cases.append(case(rng.randint(2, 64) * 1024, 8192, 28672, 2))
    return [*cases, case(just_above(16, rng), just_above(26, rng), just_above(27, rng), 1)]


def moved_bytes(rows: int, inner: int, columns: int, element_bytes: int) -> int:
    """What the instrument counts while the product runs on the meta device."""
    dtype = DTYPES[element_bytes]
    a = torch.empty(rows, inner, device="meta", dtype=dtype)
    b = torch.empty(inner, columns, device="meta", dtype=dtype)
    return count_bytes(lambda: a @ b).num_bytes


CHECK = Check(
    cases=product_cases,
    judge=EqualTo(moved_bytes, *mistakes_of("u02-product-bytes")),
    fallback="course_utils.formulas.roofline.product_bytes",
    answers=COUNTERS,
)
