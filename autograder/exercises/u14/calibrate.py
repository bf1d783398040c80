"""Check of two calibrated constants, against a descent that goes down one constant at a time."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of, questions_of

DIGITS = 1e-6
NUM_TURNS = 400
LARGE, SMALL = (0.6, 1), (0.1, 0.4)  # so that rows tell the two kinds of work apart
NAMES = ("attention", "elementwise")


def calibration_cases(seed: int) -> list[Case]:
    """Rows that agree and that do not, times of any size; best constants above and below zero."""
    rng = random.Random(seed)
    cases: list[Case] = [{"rows": [[1.0, 1.0, 0.0, 3.0], [1.0, 0.0, 1.0, 4.0]]}]
    for number in range(21):
        signs = ((1, 1), (1, 1), (-1, 1), (1, -1))[number % 4]
        true = [rng.uniform(0.5, 3) if sign > 0 else -rng.uniform(0.8, 2) for sign in signs]
        noise = 0.0 if number % 8 == 1 else 0.03
        rows = []
        for place in range(rng.randint(4, 8)):
            size = 10 ** rng.uniform(-1, 1)
            shares = (LARGE, SMALL) if place % 2 else (SMALL, LARGE)
            first, second = (size * rng.uniform(*each) for each in shares)
            fixed = size * rng.uniform(3, 5)
            ideal = fixed + true[0] * first + true[1] * second
            rows.append([fixed, first, second, ideal * rng.uniform(1 - noise, 1 + noise)])
        cases.append({"rows": rows})
    return cases


def descended(rows: list[list[float]]) -> dict[str, float]:
    """The smallest sum of squared relative errors, one constant after the other, many times."""
    relative = [[each / row[3] for each in row[:3]] for row in rows]
    constants = [0.0, 0.0]
    for turn in range(NUM_TURNS):
        own = turn % 2
        other = 1 - own
        left = [1 - row[0] - constants[other] * row[1 + other] for row in relative]
        along = sum(each * row[1 + own] for each, row in zip(left, relative, strict=True))
        constants[own] = max(0.0, along / sum(row[1 + own] ** 2 for row in relative))
    return dict(zip(NAMES, constants, strict=True))


CHECK = Check(
    cases=calibration_cases,
    judge=EqualTo(
        descended,
        *mistakes_of("u14-calibrate"),
        relative_tolerance=DIGITS,
        questions=questions_of("u14-calibrate"),
    ),
    fallback="course_utils.formulas.calibration.calibrate",
)
