"""Check of the largest micro-batch that fits into memory."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake

NAMES = ("num_params", "sequence_bytes", "memory_bytes")


def micro_batch_cases(seed: int) -> list[Case]:
    """Nothing fits, exactly one fits, many fit; to the byte and one byte less."""
    rng = random.Random(seed)
    sizes = [(10, 7, 160 + 3 * 7), (10, 7, 160 + 3 * 7 - 1)]
    for fitting in (
        0,
        0,
        1,
        1,
        rng.randint(2, 9),
        rng.randint(2, 9),
        *(rng.randint(10, 400) for _ in range(6)),
    ):
        num_params, each = rng.randint(10**6, 10**9), rng.randint(10**6, 10**9)
        rest = rng.choice((0, each - 1, rng.randrange(each)))
        sizes.append((num_params, each, 16 * num_params + fitting * each + rest))
    for _ in range(4):
        num_params = rng.randint(10**9, 10**10)
        sizes.append((num_params, rng.randint(10**8, 10**9), rng.randint(1, 16 * num_params)))
    sizes += [(1_235_814_400, 4_000_000_000, 80 * 10**9), (8_030_261_248, 48 * 10**9, 80 * 10**9)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def searched_micro_batch(num_params: int, sequence_bytes: int, memory_bytes: int) -> int:
    """The same number by adding one sequence at a time."""
    used, fitting = 16 * num_params + sequence_bytes, 0
    while used <= memory_bytes:
        used, fitting = used + sequence_bytes, fitting + 1
    return fitting


def largest_micro_batch(num_params: int, sequence_bytes: int, memory_bytes: int) -> int:
    """The course's own answer, under the name that the exercise asks for."""
    return max(0, (memory_bytes - 16 * num_params) // sequence_bytes)


CHECK = Check(
    cases=micro_batch_cases,
    reference=largest_micro_batch,
    judge=EqualTo(
        searched_micro_batch,
        Mistake(
            "You fill the memory with activations alone. What else stays on the device from step "
            "to step?",
            lambda n, each, memory: memory // each,
        ),
        Mistake(
            "A negative number of sequences. What is the answer where not even the training state "
            "fits?",
            lambda n, each, memory: (memory - 16 * n) // each,
        ),
        Mistake(
            "You rounded to the nearest number. Does a part of a sequence that is too much still "
            "fit?",
            lambda n, each, memory: max(0, round((memory - 16 * n) / each)),
        ),
        Mistake(
            "You rounded up. Does a part of a sequence that is too much still fit?",
            lambda n, each, memory: max(0, -(-(memory - 16 * n) // each)),
        ),
        Mistake(
            "You count two bytes for each parameter. What does training keep beside the weights?",
            lambda n, each, memory: max(0, (memory - 2 * n) // each),
        ),
        Mistake(
            "You leave the optimizer out. How many bytes does it keep for each parameter?",
            lambda n, each, memory: max(0, (memory - 4 * n) // each),
        ),
    ),
)
