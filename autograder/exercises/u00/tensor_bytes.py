"""Check of the bytes of a tensor."""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


FIRST, EACH, LAST = "num_bytes = element_bytes", "num_bytes *= size", "return num_bytes"
COUNTED = {FIRST: "num_bytes = 1"}
ADDED = "You add the sizes of the axes. How many numbers are in 2 rows of 3?"
ONCE = "You multiply by the bytes of an element once per axis. How often should you?"
ONE_AXIS_LESS = "One axis is missing from your product. Which one does your loop skip?"
NOT_ALL_AXES = "A shape can have any number of axes. How many does your code expect?"
EDITS = (
    Edit(
        "A tensor without axes holds one number. How many bytes does that number take?",
        {LAST: f"{LAST} if shape else 1"},
    ),
    *(
        Edit(
            "An axis of size 0 means no numbers at all. How many bytes do 0 rows of 5 take?", pieces
        )
        for pieces in ({EACH: "num_bytes *= size or 1"}, {LAST: f"{LAST} or element_bytes"})
    ),
    Edit(
        "A single axis of 7 holds 7 numbers. What does your code do when there is only one axis?",
        {LAST: f"{LAST} if len(shape) > 1 else element_bytes"},
    ),
    Edit(
        "Your product counts axes of equal size only once. How many numbers are in 5 rows of 5?",
        {"in shape": "in set(shape)"},
    ),
    Edit("You count the numbers in the tensor. How many bytes does each of them take?", COUNTED),
    Edit(
        "That is the number of bits. How many bits are in a byte?",
        {FIRST: "num_bytes = 8 * element_bytes"},
    ),
    *(
        Edit("element_bytes is already in bytes. Why divide by 8?", {LAST: f"{LAST} {way}"})
        for way in ("/ 8", "// 8")
    ),
    *(
        Edit(
            f"You assume {size} bytes per element. Is every element {size} bytes large?",
            {FIRST: f"num_bytes = {size}"},
        )
        for size in (2, 4, 8)
    ),
    *(
        Edit(
            f"That is the number of {unit}. Which unit does the exercise ask for?",
            {LAST: f"{LAST} / 2**{power}"},
        )
        for unit, power in (("KiB", 10), ("MiB", 20), ("GiB", 30))
    ),
    Edit(
        "You give 0 bytes for a tensor without axes. How many numbers are in torch.tensor(3.14)?",
        {LAST: f"{LAST} if shape else 0"},
    ),
    Edit(ADDED, {LAST: "return sum(shape) * element_bytes"}),
    Edit(ADDED, {EACH: "num_bytes += size"}),
    Edit(
        "You add the bytes of an element to the number of elements. How many bytes do 6 numbers "
        "of 4 bytes take?",
        {**COUNTED, LAST: f"{LAST} + element_bytes"},
    ),
    Edit(
        "You count the axes, not the numbers. How many numbers are in 2 rows of 3?",
        {LAST: "return len(shape) * element_bytes"},
    ),
    Edit(ONCE, {EACH: "num_bytes *= size * element_bytes"}),
    Edit(ONCE, {**COUNTED, EACH: "num_bytes *= size * element_bytes"}),
    *(Edit(NOT_ALL_AXES, {"in shape": f"in shape[:{count}]"}) for count in (1, 2, 3)),
    *(
        Edit(NOT_ALL_AXES, {LAST: f"{LAST} if len(shape) < 4 else {otherwise}"})
        for otherwise in ("0", "element_bytes")
    ),
    Edit(ONE_AXIS_LESS, {"in shape": "in shape[1:]"}),
    Edit(ONE_AXIS_LESS, {"in shape": "in shape[:-1]"}),
    Edit(
        "Your number depends only on the last axis. What happens to the product of the axes "
        "before it?",
        {EACH: "num_bytes = size * element_bytes"},
    ),
    Edit(
        "Your product is always zero. What does it start from?",
        {FIRST: "num_bytes = 0"},
    ),
    Edit(
        "Almost: a float32 keeps 24 bits, about 7 digits. Where does your whole number become one?",
        {LAST: "return int(torch.tensor(float(num_bytes)))"},
    ),
)

CHECK = Check(
    cases=tensor_cases,
    judge=EqualTo(measured_tensor_bytes, *edited("u00-tensor-bytes", EDITS)),
    fallback="course_utils.formulas.tensors.tensor_bytes",
)
