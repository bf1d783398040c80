"""How an exercise declares its check: with the function that measures what is right.

    @declares_check("u00-tensor-words", matrix_cases)
    def measured_words(rows: int, columns: int) -> int:
        return torch.empty(rows, columns, device="meta").nbytes // 4

What goes wrong, and what to ask then, stands in the unit's `mistakes.diff`.
"""

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar

from autograder.checking.exercise_check import DECLARED, Case, Check, call
from autograder.checking.judges import ImplementationJudge, ValueJudge, as_observed
from autograder.checking.mistakes import Mistake, Symptom
from autograder.checking.plain_data import Plain
from autograder.exercises.model_answers import mistakes_of, questions_of

Measure = TypeVar("Measure", bound=Callable[..., Plain])


def declares_check(  # noqa: PLR0913  all but the first two by name
    exercise: str,
    cases: Callable[[int], list[Case]],
    *,
    observer: ModuleType | None = None,
    judge: type[ValueJudge] | None = None,
    first_symptoms: Iterable[Symptom] = (),
    symptoms: Iterable[Symptom] = (),
    fallback: str = "",
    give_away: tuple[str, ...] = (),
    forbidden_modules: tuple[str, ...] = (),
    allowed_names: tuple[str, ...] = (),
    **judging: Any,
) -> Callable[[Measure], Measure]:
    """Declare the check of an exercise; the function that is decorated measures what is right.

    Args:
        exercise: Its id.
        cases: From a seed to cases.
        observer: The module that observes an implementation, with `observe` and `facts`; none
            for a formula, of which only the value is looked at.
        judge: `ImplementationJudge` with an observer and `ValueJudge` without one, unless given.
        first_symptoms: Wrong numbers that come about in many ways, asked before known mistakes.
        symptoms: Those that are asked after them, before generated mistakes.
        fallback: Dotted name of what the course teaches.
        give_away: Dotted names of what would answer it.
        forbidden_modules: Modules outside the course that hold the answer.
        allowed_names: Names of the course that hold no answer.
        judging: What else the judge takes: labels, tolerance, scenarios.

    Raises:
        ValueError: If the exercise has a check already.
    """
    observe = observer.observe if observer else call
    kind = judge or (ImplementationJudge if observer else ValueJudge)
    if issubclass(kind, ImplementationJudge):
        judging |= {"facts": getattr(observer, "facts", as_observed)}

    def declared(measure: Measure) -> Measure:
        if exercise in DECLARED:
            raise ValueError(f"{exercise} has a check already; a second one is {measure}")
        known = mistakes_of(exercise, observe)
        mistakes: tuple[Mistake, ...] = (*first_symptoms, *known, *symptoms)
        DECLARED[exercise] = Check(
            cases=cases,
            judge=kind(measure, *mistakes, questions=questions_of(exercise), **judging),
            observe=observe,
            observer=observer.__name__ if observer else "",
            fallback=fallback,
            give_away=give_away,
            forbidden_modules=forbidden_modules,
            allowed_names=allowed_names,
        )
        return measure

    return declared
