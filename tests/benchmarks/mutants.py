"""Do the checks tell mutants of the model answers from right answers, and what do they say?

    python -m tests.benchmarks.mutants u01 u09 --each 6

Mutants are those of `autograder.exercises.mutations`, which are known mistakes of formulas, too,
and those of `small_changes`. Of each exercise some are drawn, of as many kinds as there are.

A mutant whose numbers are right for practice and for one more seed is asked with many seeds (200
for a formula, 20 for an implementation). If they tell it, it is an escape of the two seeds alone,
and the cases lack a feature for some seeds. If they do not, it is printed, too: either the change
changes nothing that the exercise asks for, which a person must say, or the cases lack a feature.
A hint is generic if it is given to answers of which nothing is known.
"""

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from multiprocessing import get_context
from typing import Any

from autograder import catalogue
from autograder.checking.hint_choice import CONSTANT, PENCIL
from autograder.checking.judges import NEARLY_A_COUNT, NEARLY_A_NUMBER
from autograder.checking.lookup import check_of, practice_check_of
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import PRACTICE_SEEDS
from autograder.checking.verdict import Verdict
from autograder.exercises.model_answers import answer_of, model_answer, model_source
from autograder.exercises.mutations import mutations
from tests.benchmarks.small_changes import SmallChange, small_changes

SEEDS = (7,)
LIMIT_SECONDS = 5.0
NUM_SEEDS, NUM_SEEDS_OF_AN_IMPLEMENTATION = 200, 20
GENERIC = (PENCIL, CONSTANT, NEARLY_A_COUNT, NEARLY_A_NUMBER)
Judged = tuple[str, str, SmallChange, str]
"""Exercise, what came of it, the mutant, and the hint."""


def verdict_on(exercise: str, answer: Any, seeds: Sequence[int]) -> Verdict:
    """What practice says (for its seeds), or what grading would."""
    check = practice_check_of(exercise) if seeds == PRACTICE_SEEDS else check_of(exercise)
    result = score_answer(check, answer, seeds, LIMIT_SECONDS)
    return result.verdict(exercise, catalogue.exercise(exercise).points, tell_all=True)


def is_equivalent(exercise: str, answer: Any) -> bool:
    """Whether an answer gives what the model answer gives, in all cases of many seeds."""
    check, right = check_of(exercise), model_answer(exercise)
    if not check.is_formula:
        seeds = range(1000, 1000 + NUM_SEEDS_OF_AN_IMPLEMENTATION)
        return verdict_on(exercise, answer, seeds).passed
    cases = (case for seed in range(1000, 1000 + NUM_SEEDS) for case in check.cases(seed))
    return all(check.observe(answer, case) == check.observe(right, case) for case in cases)


def judged(exercise: str, mutant: SmallChange) -> tuple[str, str]:
    """``equivalent``, ``escape``, ``generic`` or ``known``, and the hint."""
    answer = answer_of(exercise, mutant.source)
    verdict = verdict_on(exercise, answer, PRACTICE_SEEDS)
    if verdict.passed:
        verdict = verdict_on(exercise, answer, SEEDS)
    if verdict.passed:
        return "equivalent" if is_equivalent(exercise, answer) else "escape", ""
    is_generic = not verdict.hint or verdict.hint.startswith(GENERIC)
    return "generic" if is_generic else "known", verdict.hint


def drawn(exercise: str, count: int) -> Iterator[SmallChange]:
    """Some mutants of an exercise, the same every time, of one kind after the other."""
    source, chance = model_source(exercise), random.Random(exercise)
    kinds = defaultdict(list)
    known = (SmallChange(each.kind, each.source) for each in mutations(source))
    for each in {each.source: each for each in (*known, *small_changes(source))}.values():
        kinds[each.kind].append(each)
    for each in kinds.values():
        chance.shuffle(each)
    in_turn = zip_longest(*chance.sample([*kinds.values()], len(kinds)))
    return islice(filter(None, chain.from_iterable(in_turn)), count)


def judge_drawn(exercise: str, count: int) -> list[Judged]:
    """What comes of some mutants of an exercise.

    The right answer comes first, so that no mutant is stopped while modules are imported.
    """
    assert verdict_on(exercise, model_answer(exercise), PRACTICE_SEEDS).passed, exercise
    found: list[Judged] = []
    for mutant in drawn(exercise, count):
        kind, hint = judged(exercise, mutant)
        found.append((exercise, kind, mutant, hint))
    return found


def exercises_of(units: Iterable[str]) -> list[str]:
    """Ids of the coded exercises of some units; of all, where none is named."""
    return [
        item.id
        for unit in catalogue.units()
        for item in unit.exercises
        if not item.manual and (not units or f"u{unit.number}" in units)
    ]


def main() -> None:
    """Print the counts for some mutants of each exercise, and all that are no known mistake."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("units", nargs="*")
    parser.add_argument("--each", type=int, default=6)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    tasks = [(exercise, options.each) for exercise in exercises_of(options.units)]
    with get_context("spawn").Pool(2, maxtasksperchild=8) as pool:
        for task in [pool.apply_async(judge_drawn, each) for each in tasks]:
            for exercise, kind, mutant, hint in task.get():
                counts[kind] += 1
                if kind != "known":
                    print(f"--- {kind}: {exercise}, {mutant.kind}: {hint}\n{mutant.source}\n")
    print(f"{counts.total()} mutants: {dict(counts)}")


if __name__ == "__main__":
    main()
