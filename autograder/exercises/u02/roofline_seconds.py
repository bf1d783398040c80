"""Check of the seconds that operations take at the roof."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u02.shared.sizes import COUNTERS
from course_utils.configs import DEVICES


def operation_cases(seed: int) -> list[Case]:
    """One operation and many; compute-bound, bandwidth-bound, mixed; some without FLOPs."""
    rng = random.Random(seed)
    worked = [[2 * 10**9, 4 * 10**6], [0, 5 * 10**8], [3 * 10**10, 2 * 10**8]]
    cases = [_case(worked, 10**12, 10**11), _case([], rng.randint(1, 999) * 10**12, 10**11)]
    for number in range(20):
        hardware = list(DEVICES.values())[number % len(DEVICES)]
        peak = hardware.dense_flops_per_second("bf16")
        bandwidth = hardware.bandwidth_bytes_per_second
        operations = [
            [rng.randint(0, 9) * rng.randint(1, 10**12), rng.randint(1, 10**10)]
            for _ in range((1, 2, 5, 30)[number % 4])
        ]
        operations[0][0] = 0 if number % 4 == 3 else operations[0][0] + 1
        cases.append(_case(operations, peak, bandwidth))
    balanced = [[3 * 10**6 * n, 10**6 * n] for n in range(1, rng.randint(3, 9))]
    left_of_it = [[7 * 10**6 * n, 2 * 10**6 * n] for n in range(1, rng.randint(3, 9))]
    cases.append(_case(left_of_it, 37 * 10**8, 10**9))  # 3.5 FLOP/B, with a ridge at 3.7
    return [*cases, _case(balanced, 3 * 10**9, 10**9)]


def _case(operations: list[list[int]], peak: int, bandwidth: int) -> Case:
    return {
        "operations": operations,
        **{"flops_per_second": peak, "bytes_per_second": bandwidth},
    }


def played(operations: list[list[int]], flops_per_second: int, bytes_per_second: int) -> float:
    """The end of the last operation, each started when the one before it is through."""
    now = Fraction(0)
    for flops, num_bytes in operations:
        computed = now + Fraction(flops, flops_per_second)
        moved = now + Fraction(num_bytes, bytes_per_second)
        now = max(computed, moved)
    return float(now)


CHECK = Check(
    cases=operation_cases,
    judge=EqualTo(played, *mistakes_of("u02-roofline-seconds"), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.roofline.roofline_seconds",
    answers=COUNTERS,
)
