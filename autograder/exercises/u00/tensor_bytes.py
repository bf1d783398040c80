"""Check of the bytes of a tensor."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.instruments import storage_bytes

DTYPES = {4: torch.float32, 2: torch.bfloat16, 8: torch.float64, 1: torch.bool}


def tensor_cases(seed: int) -> list[Case]:
    """Zero to four axes, an empty one, equal ones; more bytes than 32 bits hold, or a float."""
    rng = random.Random(seed)

    def sizes(count: int) -> tuple[int, ...]:
        return tuple(rng.randint(2, 97) for _ in range(count))

    square = sizes(1) * 2
    shapes = [(1,) * rng.randint(5, 40), (0, *sizes(1)), square, (1, *sizes(2)), sizes(4)]
    shapes += [(rng.randint(5, 60), 4096, 128256)]
    shapes += [tuple(2**19 + rng.randrange(1, 64, 2) for _ in range(3))]
    several = [sizes(1), sizes(2), sizes(3)]
    return [
        {"shape": (2, 3), "element_bytes": 4},
        {"shape": (), "element_bytes": rng.choice((2, 4, 8))},
        *({"shape": shape, "element_bytes": 2} for shape in shapes),
        *({"shape": shape, "element_bytes": size} for size in DTYPES for shape in several),
    ]


def measured_tensor_bytes(shape: tuple[int, ...], element_bytes: int) -> int:
    """Bytes of a tensor of this shape, as PyTorch reports them."""
    return storage_bytes(torch.empty(shape, dtype=DTYPES[element_bytes], device="meta"))


CHECK = Check(
    cases=tensor_cases,
    judge=EqualTo(measured_tensor_bytes, *mistakes_of("u00-tensor-bytes")),
    fallback="course_utils.formulas.tensors.tensor_bytes",
)
