"""An exercise, tried with the staff's check, so that nothing need be built before.

Its model answer passes, its stub is not called wrong, and wrong answers earn what they should and
are asked their question: some of them, others whenever the model answer changes.
"""

import random
from collections.abc import Iterator, Sequence

from autograder import catalogue
from autograder.checking.lookup import check_of
from autograder.exercises.model_answers import model_source
from tests.answer_bank import STUB, bank_of, make
from tests.trying.answers import Tried, answers


def findings(exercise: str, most_wrong: int) -> Iterator[str]:
    """What is wrong with an exercise.

    Args:
        exercise: Its id.
        most_wrong: How many wrong answers are tried at most.
    """
    try:
        check = check_of(exercise)
        for each in _chosen(exercise, most_wrong):
            if complaint := each.complaint(check):
                yield complaint
    except catalogue.UnknownExercise:
        yield f"{exercise} is not in the catalogue yet: `make build` takes it in."
    except Exception as error:  # of code and patches that are being written
        yield f"{exercise} cannot be tried: {type(error).__name__}: {error}"


def _chosen(exercise: str, most_wrong: int) -> Iterator[Tried]:
    every = [each for each in answers(["model", "wrong", "edits"], exercise) if not each.again]
    every = [each for each in every if each.exercise == exercise]
    yield from (each for each in every if each.is_right)
    function = bank_of(exercise).function
    stub = STUB.format(function=function)
    yield Tried(
        exercise=exercise,
        name="the stub",
        make=lambda: make(stub, function),
        points=0.0,
        sentence="Not written yet.",
    )
    wrong = [each for each in every if not each.is_right]
    yield from _some(wrong, most_wrong, model_source(exercise))


def _some(every: Sequence[Tried], most: int, seed: str) -> list[Tried]:
    return random.Random(seed).sample(every, min(most, len(every)))
