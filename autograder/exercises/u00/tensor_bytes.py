"""Check of the bytes of a tensor."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas.tensors import tensor_bytes
from course_utils.instruments import storage_bytes

DTYPES = {1: torch.bool, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}


def tensor_cases(seed: int) -> list[Case]:
    """Zero to four axes, sizes of one, an empty axis, odd sizes; every element size."""
    rng = random.Random(seed)

    def sizes(count: int) -> tuple[int, ...]:
        return tuple(rng.randint(2, 97) for _ in range(count))

    shapes = [(2, 3), (), (1,), (0, 5), sizes(1), sizes(2), sizes(3), (1, *sizes(2)), sizes(4)]
    cases: list[Case] = [{"shape": shape, "element_bytes": 2} for shape in shapes]
    for element_bytes in DTYPES:
        cases += [{"shape": sizes(n), "element_bytes": element_bytes} for n in (1, 2, 3)]
    return cases


def measured_tensor_bytes(shape: tuple[int, ...], element_bytes: int) -> int:
    """Bytes of a tensor of this shape, as PyTorch reports them."""
    return storage_bytes(torch.empty(shape, dtype=DTYPES[element_bytes], device="meta"))


def _elements(shape: tuple[int, ...]) -> int:
    return torch.empty(shape, device="meta").numel()


CHECK = Check(
    cases=tensor_cases,
    reference=tensor_bytes,
    judge=EqualTo(
        measured_tensor_bytes,
        Mistake(
            "A tensor without axes still holds something. How many numbers are in "
            "torch.tensor(3.14)?",
            lambda shape, size: _elements(shape) * size if shape else 0,
        ),
        Mistake(
            "A tensor without axes holds one number. How many bytes does that number take?",
            lambda shape, size: _elements(shape) * size if shape else 1,
        ),
        Mistake(
            "The bytes of an element enter your product once for each axis. How often should they?",
            lambda shape, size: _elements(shape) * size ** len(shape),
        ),
        Mistake(
            "An axis of size 0 leaves nothing. How many numbers do 0 rows of 5 hold?",
            lambda shape, size: _elements(tuple(n for n in shape if n)) * size,
        ),
        Mistake(
            "Your product is always zero. What do you multiply the first size with?",
            lambda shape, size: 0,
        ),
        Mistake(
            "You count the numbers in the tensor. How many bytes does each of them take?",
            lambda shape, size: _elements(shape),
        ),
        Mistake(
            "You count bits. How many bits make one byte?",
            lambda shape, size: 8 * _elements(shape) * size,
        ),
        Mistake(
            "You add the sizes of the axes. How many numbers do 2 rows of 3 hold?",
            lambda shape, size: sum(shape) * size,
        ),
        Mistake(
            "You take every element for 4 bytes. Is every element 4 bytes large?",
            lambda shape, size: _elements(shape) * 4,
        ),
    ),
)
