"""A case of many rows is shown in a few lines: the hint below it has to be found."""

import pytest

from autograder import catalogue
from autograder.checking.lookup import check_of, practice_check_of
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import PRACTICE_SEEDS
from autograder.exercises.model_answers import ChangedAnswer

ROWS = ("u04-timeline", "u14-waits", "u14-pace")
LINE = 110  # characters
MOST_LINES = {"of the case": 8, "before the hint": 20}
MISTAKES = [
    (name, number, mistake)
    for name in ROWS
    for number, mistake in enumerate(check_of(name).judge.mistakes)
    if isinstance(mistake, ChangedAnswer) and not mistake.is_generated
]


@pytest.mark.parametrize(
    ("exercise", "mistake"),
    [(name, mistake) for name, _, mistake in MISTAKES],
    ids=[f"{name}-{number}" for name, number, _ in MISTAKES],
)
def test_the_case_of_a_known_mistake_is_short(exercise, mistake):
    result = score_answer(practice_check_of(exercise), mistake.answer, PRACTICE_SEEDS)
    points = catalogue.exercise(exercise).points
    verdict = result.verdict(exercise, points, tell_all=True)
    assert len(verdict.sizes) <= MOST_LINES["of the case"] * LINE
    before = str(verdict).partition("\nHint: ")[0]
    assert len(before) <= MOST_LINES["before the hint"] * LINE
