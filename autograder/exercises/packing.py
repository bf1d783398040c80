"""What the practice packs of an exercise hold: cases, what is right, what each mistake gives."""

from collections.abc import Iterator, Sequence

from autograder.checking import plain_data
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import ImplementationJudge
from autograder.checking.mistakes import Mistake
from autograder.checking.plain_data import Plain
from autograder.checking.practice_pack import KEPT, OF_JUDGE, OF_MISTAKE, in_columns
from autograder.checking.seeds import AGAIN_SEEDS, PRACTICE_SEEDS
from autograder.exercises.model_answers import model_answer
from autograder.exercises.other_cases import as_ifs

Packs = dict[bool, Plain]
"""The pack of an exercise, and under True that of its new sizes, where it has some."""


def packs_of(exercise: str, check: Check) -> Packs:
    """Both packs of an exercise, recorded anew."""
    packs = {False: packed(exercise, check), True: new_sizes(check)}
    return {again: pack for again, pack in packs.items() if pack is not None}


def packed(exercise: str, check: Check) -> Plain:
    """The pack of an exercise: its practice cases, measured, with what each mistake gives."""
    judge = check.judge
    cases = _cases(check, PRACTICE_SEEDS)
    pack = (
        {name: getattr(check, name) for name in KEPT}
        | {name: getattr(judge, name) for name in OF_JUDGE}
        | {
            "labels": judge.labels,
            "scenarios": judge.scenarios if isinstance(judge, ImplementationJudge) else None,
            "cases": cases,
            "right": [judge.measurement(case) for case in cases],
            "mistakes": [*_recorded(exercise, check, cases)],
        }
    )
    return plain_data.copied(pack)


def new_sizes(check: Check) -> Plain | None:
    """Cases of another seed, measured; None if it gives no other cases."""
    cases = _cases(check, AGAIN_SEEDS)
    if plain_data.pack(cases) == plain_data.pack(_cases(check, PRACTICE_SEEDS)):
        return None
    right = [check.judge.measurement(case) for case in cases]
    return plain_data.copied({"cases": cases, "right": right})


def _cases(check: Check, seeds: Sequence[int]) -> list[Case]:
    return [case for seed in seeds for case in check.cases(seed)]


def _recorded(exercise: str, check: Check, cases: list[Case]) -> Iterator[Plain]:
    """What each mistake gives in each case; of generated ones, those that no other tells."""
    seen: set[str] = set()
    for mistake in _mistakes(exercise, check, cases):
        numbers = [mistake.numbers(case, check.judge.wrong_numbers) for case in cases]
        key = plain_data.pack(numbers).json
        if any(numbers) and not (mistake.is_generated and key in seen):
            seen.add(key)
            kept = {name: getattr(mistake, name) for name in OF_MISTAKE}
            yield kept | {"numbers": in_columns(numbers)}


def _mistakes(exercise: str, check: Check, cases: list[Case]) -> list[Mistake]:
    """Those of the check, and of a formula the right answers to other cases, before mutations."""
    known = check.judge.mistakes
    if not check.is_formula:
        return known
    others = as_ifs(model_answer(exercise), cases, check.judge.wrong_numbers)
    return sorted([*others, *known], key=lambda each: each.is_generated)
