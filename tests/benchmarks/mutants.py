"""Do the checks tell mutants of the model answers from right answers, and what do they say?

    python -m tests.benchmarks.mutants u01 u09 --count 250

Mutants are those of `autograder.exercises.mutations`, which are known mistakes of formulas, too: of
those only an escape is news, and of implementations the hint. Besides, each statement is left out
once. Rule for equivalent ones: a mutant that gives what the model answer gives in every case of 200
seeds (20 for implementations) is left out, and counted. An escape passes practice and two seeds and
is not equivalent. A hint is generic if it is given to answers of which nothing is known.
"""

import argparse
import ast
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from autograder import catalogue
from autograder.checking.answer_result import CONSTANT, PENCIL
from autograder.checking.judges import NEARLY_A_COUNT, NEARLY_A_NUMBER
from autograder.checking.lookup import check_of, practice_check_of
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import PRACTICE_SEEDS
from autograder.checking.verdict import Verdict
from autograder.exercises.model_answers import answer_of, model_answer, model_source
from autograder.exercises.mutations import Mutation, mutations

SEEDS = (7, 8)
LIMIT_SECONDS = 3.0
NUM_SEEDS, NUM_SEEDS_OF_AN_IMPLEMENTATION = 200, 20
GENERIC = (PENCIL, CONSTANT, NEARLY_A_COUNT, NEARLY_A_NUMBER)


def verdict_on(exercise: str, answer: Any, seeds: Sequence[int]) -> Verdict:
    """What practice says (for its seeds), or what grading would."""
    check = practice_check_of(exercise) if seeds == PRACTICE_SEEDS else check_of(exercise)
    result = score_answer(check, answer, seeds, LIMIT_SECONDS)
    return result.verdict(exercise, catalogue.exercise(exercise).points, tell_all=True)


def is_equivalent(exercise: str, answer: Any) -> bool:
    """Whether an answer gives what the model answer gives, in all cases of many seeds."""
    check, right = check_of(exercise), model_answer(exercise)
    many = NUM_SEEDS if check.is_formula else NUM_SEEDS_OF_AN_IMPLEMENTATION
    if not check.is_formula:
        return verdict_on(exercise, answer, range(1000, 1000 + many)).passed
    cases = (case for seed in range(1000, 1000 + many) for case in check.cases(seed))
    return all(check.observe(answer, case) == check.observe(right, case) for case in cases)


def judged(exercise: str, mutant: Mutation) -> tuple[str, str]:
    """``equivalent``, ``escape``, ``generic`` or ``known``, and the hint."""
    answer = answer_of(exercise, mutant.source)
    practised = verdict_on(exercise, answer, PRACTICE_SEEDS)
    if practised.passed and verdict_on(exercise, answer, SEEDS).passed:
        return "equivalent" if is_equivalent(exercise, answer) else "escape", ""
    hint = practised.hint or verdict_on(exercise, answer, SEEDS).hint
    return "generic" if hint.startswith(GENERIC) else "known", hint


def left_out(source: str) -> Iterator[Mutation]:
    """The answer without one of its statements, for each that is not a definition or its text."""
    count = sum(map(_may_go, ast.walk(ast.parse(source))))
    for number in range(count):
        tree = ast.parse(source)
        gone = [node for node in ast.walk(tree) if _may_go(node)][number]
        for outer in ast.walk(tree):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(outer, name, None)
                if isinstance(block, list) and gone in block:
                    block[block.index(gone)] = ast.Pass()
        yield Mutation("left out", "", ast.unparse(ast.fix_missing_locations(tree)))


def _may_go(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    kept = (ast.FunctionDef, ast.ClassDef, ast.Pass, ast.Nonlocal, ast.Global)
    return isinstance(node, ast.stmt) and not isinstance(node, kept)


def main() -> None:
    """Print the counts for a sample of mutants, and each escape and generic hint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("units", nargs="+")
    parser.add_argument("--count", type=int, default=250)
    options = parser.parse_args()
    exercises = [
        item.id
        for unit in catalogue.units()
        for item in unit.exercises
        if not item.manual and f"u{unit.number}" in options.units
    ]
    sources = {name: model_source(name) for name in exercises}
    found = [
        (name, each)
        for name, source in sources.items()
        for each in (*mutations(source), *left_out(source))
    ]
    sample = random.Random(0).sample(found, min(options.count, len(found)))
    counts: Counter[str] = Counter()
    for exercise, mutant in sorted(sample, key=lambda pair: pair[0]):
        kind, hint = judged(exercise, mutant)
        counts[kind] += 1
        if kind != "known":
            print(f"--- {kind}: {exercise}, {mutant.kind}: {hint}\n{mutant.source}\n")
    print(f"{len(found)} mutants, {len(sample)} tried: {dict(counts)}")


if __name__ == "__main__":
    main()
