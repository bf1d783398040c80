"""Check of the student's caching allocator, against one that searches a plain list of blocks.

An allocator is judged by how many requests it serves right, up to the first that differs in the
address returned or in the bytes reserved by then.
"""

from typing import Any

from autograder.checking.exercise_check import Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u04.shared.allocator_scripts import KINDS, allocator_cases
from autograder.observing.u04 import allocator
from course_utils.reference.segment_allocator import Allocator


def measured(**case: Any) -> dict[str, Any]:
    """Every request served, and the addresses and reserved bytes that are right."""
    right: Any = allocator.observe(Allocator, case)
    return {"served_requests": len(right["served"]), "served": right["served"]}


CHECK = Check(
    cases=allocator_cases,
    observe=allocator.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u04-allocator", observe=allocator.observe),
        Symptom(
            "Not even the first request of a script is served as the rules say. What do your "
            "`allocate` and `reserve` return, and is it the same?",
            lambda *case: {"served_requests": 0},
        ),
        scenarios=KINDS,
        summarise=allocator.summarise,
        questions=questions_of("u04-allocator"),
        labels={"served_requests": "the requests that are served as the rules say"},
    ),
    fallback="course_utils.reference.segment_allocator.Allocator",
    answers=("course_utils.reference.allocator", "course_utils.reference.segment_allocator"),
)
