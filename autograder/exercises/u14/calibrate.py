"""Check of two calibrated constants, against a descent that goes down one constant at a time."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited

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


FIRST, SECOND = "attention / measured, elementwise / measured", "1 - fixed / measured"
LOOP, ALLOWED = "for free in ([0], [1], [0, 1]):", "if constants.min() >= 0:"
RETURNED = '"attention": float(attention), "elementwise": float(elementwise)'
EDITS = (
    Edit(
        "Your errors are in seconds, so that long rows decide. What is a *relative* error?",
        {FIRST: "attention, elementwise", SECOND: "measured - fixed"},
    ),
    Edit(
        "You set the negative one to zero and keep the other. Is that one still the best?",
        {
            LOOP: "for free in ([0, 1],):",
            ALLOWED: "constants = np.maximum(constants, 0)\n        if free:",
            "[np.zeros(2)]": "[]",
        },
    ),
    Edit(
        "A constant below zero: time that is given back. Which ones does the exercise allow?",
        {ALLOWED: "if free:", LOOP: "for free in ([0, 1],):", "[np.zeros(2)]": "[]"},
    ),
    Edit(
        "You explain the whole time by two constants. Which part of a row is fixed?",
        {SECOND: "1.0 + 0 * fixed"},
    ),
    Edit(
        "The two are exchanged. Which column belongs to which constant?",
        {RETURNED: '"attention": float(elementwise), "elementwise": float(attention)'},
    ),
    Edit(
        "You never let both be free at once. What if both kinds of work are slower than ideal?",
        {LOOP: "for free in ([0], [1]):"},
    ),
    Edit(
        "The fixed part has a wrong sign. What is left of a row for the two constants?",
        {SECOND: "1 + fixed / measured"},
    ),
)

CHECK = Check(
    cases=calibration_cases,
    judge=EqualTo(
        descended,
        *edited("u14-calibrate", EDITS),
        relative_tolerance=DIGITS,
        questions={
            "attention": "Put your constants into one row: which prediction comes out, and by "
            "how many per cent is it off?",
            "elementwise": "Put your constants into one row: which prediction comes out, and by "
            "how many per cent is it off?",
        },
    ),
    fallback="course_utils.formulas.calibration.calibrate",
)
