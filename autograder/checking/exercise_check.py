"""A check has three pure pieces: `cases`, `observe` and `judge`.

`cases` and `judge` run where the student's code cannot reach them; `observe` runs beside it. Only
plain data crosses between them, so the same check serves the notebook, nbgrader and a grader that
keeps the student's code in another process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autograder.checking.case_objects import arguments
from autograder.checking.plain_data import Plain
from autograder.checking.verdict import CaseResult

Case = dict[str, Plain]
"""Named sizes, in the order of the student's arguments."""


def case_key(case: Case) -> tuple[Any, ...]:
    """The values of a case as a hashable key."""
    return tuple(tuple(each) if type(each) is list else each for each in case.values())


def call(answer: Any, case: Case) -> object:
    """Call the student's function with the sizes of a case: `observe` of every formula."""
    return answer(*arguments(case).values())


@dataclass(frozen=True, kw_only=True)
class Check:
    """How one exercise is judged.

    Attributes:
        cases: Maps a seed to at least twenty cases, the worked case first; for every seed, each
            named feature occurs among them.
        judge: An `EqualTo` or a `Behaviour`: maps a case and what `observe` returned to the result
            of the case. The measurement cache and the tests read its attributes too.
        reference: The course's own answer, for cells that need a working one.
        observe: Uses the student's object and returns plain data.
        forbidden_modules: Modules outside the course that already hold the answer.
        allowed_names: Names of the course that hold no answer to this exercise.
        observe_runs_reference: Whether `observe` runs the reference beside the student's object, so
            that the sandbox cannot remove it.
    """

    cases: Callable[[int], list[Case]]
    judge: Callable[[Case, Plain], CaseResult]
    reference: Callable[..., Any]
    observe: Callable[[Any, Case], object] = call
    forbidden_modules: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()
    observe_runs_reference: bool = False

    @property
    def is_formula(self) -> bool:
        """Whether only the value that the function returns is judged."""
        return self.observe is call
