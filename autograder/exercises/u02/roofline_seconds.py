"""Check of the seconds that operations take at the roof."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited
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


EACH = "max(flops / flops_per_second, num_bytes / bytes_per_second)"
SUM = f"sum(\n        {EACH}\n        for flops, num_bytes in operations\n    )"
COMPUTE = "sum(flops for flops, _ in operations) / flops_per_second"
MEMORY = "sum(num_bytes for _, num_bytes in operations) / bytes_per_second"
TURNED_OVER = "(flops_per_second / flops if flops else 0.0)"
EDITS = (
    Edit(
        "You compare the sums. Can the last operation compute while the first one still reads?",
        {SUM: f"max({COMPUTE}, {MEMORY})"},
    ),
    Edit(
        "You add both times. Does an operation wait with computing until everything is read?",
        {EACH: "(flops / flops_per_second + num_bytes / bytes_per_second)"},
    ),
    Edit(
        "Your memory takes no time. How long does an operation without FLOPs take?",
        {EACH: "(flops / flops_per_second)"},
    ),
    Edit(
        "Your processor takes no time. For what does a large product wait?",
        {EACH: "(num_bytes / bytes_per_second)"},
    ),
    Edit(
        "You take the shorter of two times. For which of the two does an operation wait?",
        {"max(flops": "min(flops"},
    ),
    Edit(
        "You take the mean of two times. For which of the two does an operation wait?",
        {EACH: "(flops / flops_per_second + num_bytes / bytes_per_second) / 2"},
    ),
    Edit(
        "You give the longest operation. What do the others do meanwhile?",
        {SUM: f"max(({EACH} for flops, num_bytes in operations), default=0.0)"},
    ),
    Edit(
        "FLOPs and bytes have changed places. In which order does each pair come?",
        {"for flops, num_bytes in": "for num_bytes, flops in"},
    ),
    *(
        Edit(
            "You divide a rate by a count. Which way round does the ratio give seconds?",
            {EACH: f"max({computing}, {moving})"},
        )
        for computing, moving in (
            (TURNED_OVER, "bytes_per_second / num_bytes"),
            (TURNED_OVER, "num_bytes / bytes_per_second"),
            ("flops / flops_per_second", "bytes_per_second / num_bytes"),
        )
    ),
    Edit(
        "You multiply by a rate. What is the unit of FLOPs times FLOP/s, and what gives seconds?",
        {EACH: EACH.replace("/", "*")},
    ),
    Edit(
        "An operation that lies on the ridge takes no time with you. Which of your two branches "
        "should have it?",
        {EACH: f"{EACH} * (flops * bytes_per_second != num_bytes * flops_per_second)"},
    ),
    Edit(
        "Your ridge is a whole number. On which side of it is an operation of 3.5 FLOP/B, where it "
        "is 3.7?",
        {
            EACH: "(flops / flops_per_second "
            "if flops >= flops_per_second // bytes_per_second * num_bytes "
            "else num_bytes / bytes_per_second)"
        },
    ),
    *(
        Edit(
            "Your number is rounded. How long does an operation of a microsecond take?",
            {SUM: f"round({SUM}, {digits})"},
        )
        for digits in (3, 6)
    ),
    *(
        Edit(
            f"Your number is in {unit}. What does the exercise ask for?", {SUM: f"{SUM} * {factor}"}
        )
        for unit, factor in (("milliseconds", "1e3"), ("microseconds", "1e6"))
    ),
)

CHECK = Check(
    cases=operation_cases,
    judge=EqualTo(played, *edited("u02-roofline-seconds", EDITS), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.roofline.roofline_seconds",
    answers=COUNTERS,
)
