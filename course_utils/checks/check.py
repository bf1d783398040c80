"""What is a check? Three pure pieces: `cases`, `probe` and `judge`.

`cases` and `judge` run where the student's code cannot reach; `probe` runs beside it. Between them
only plain data crosses, so that the same check serves the notebook, nbgrader and a grader that
keeps the student's code in another process.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from course_utils.checks import guard, origin
from course_utils.checks.examination import Examination, Trial
from course_utils.checks.spec import arguments, in_words
from course_utils.checks.threads import one_thread
from course_utils.checks.verdict import Finding
from course_utils.checks.wire import Plain, describe

Case = dict[str, Plain]
"""Named sizes, in the order in which the student's function takes them."""


def key_of(case: Case) -> tuple[Any, ...]:
    """The values of a case as something that can be remembered."""
    return tuple(tuple(each) if type(each) is list else each for each in case.values())


def call(answer: Any, case: Case) -> object:
    """Call the student's function with the sizes of a case: the probe of every formula."""
    return answer(*arguments(case).values())


@dataclass(frozen=True, kw_only=True)
class Check:
    """How one exercise is judged.

    Attributes:
        cases: From a seed to at least twenty cases, smallest first, every named feature among
            them for every seed.
        judge: From a case and what the probe gave back to a finding.
        reference: The course's own answer, for cells that need one which works.
        probe: Uses the student's object and returns plain data.
        not_from: Modules beside the course's own that hold the answer already.
        may_use: Names of the course's own that hold no answer to this exercise.
        probe_runs_reference: Whether the probe runs the reference beside the student's object, so
            that it cannot be put away meanwhile.
    """

    cases: Callable[[int], list[Case]]
    judge: Callable[[Case, Plain], Finding]
    reference: Callable[..., Any]
    probe: Callable[[Any, Case], object] = call
    not_from: tuple[str, ...] = ()
    may_use: tuple[str, ...] = ()
    probe_runs_reference: bool = False


Observe = Callable[[Case], dict[str, Plain]]
"""From a case to what `guard.observe` tells of one call, wherever that call is made."""


@one_thread()
def examine(
    check: Check, answer: object, seeds: Iterable[int], limit_seconds: float = guard.LIMIT_SECONDS
) -> Examination:
    """Try an answer of this process on all cases of some seeds."""
    if trouble := look(check, answer):
        return Examination(trouble=trouble)
    cases = [case for seed in seeds for case in check.cases(seed)]
    return judged(check, cases, lambda c: guard.observe(check.probe, answer, c, limit_seconds))


def look(check: Check, answer: object) -> dict[str, Plain] | None:
    """What speaks against an answer before it is called: no function, or the course's own."""
    if not callable(answer):
        return {"trouble": "no function", "what": describe(answer)}
    if name := origin.borrowed(answer, (*origin.ANSWERS, *check.not_from), check.may_use):
        return {"trouble": "borrowed", "name": name}
    return None


def judged(check: Check, cases: Iterable[Case], observe: Observe) -> Examination:
    """Judge what is observed in all cases; stop where the answer raises or does not return."""
    trials: list[Trial] = []
    for case in cases:
        observed = observe(case)
        if "trouble" in observed:
            return Examination(trouble=observed, sizes=in_words(case))
        value = observed["value"]
        trials.append(Trial(in_words(case), value, check.judge(case, value)))
    return Examination(trials=tuple(trials))
