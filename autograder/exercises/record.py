"""Record the practice packs of some exercises: `python -m autograder.exercises.record u01-…`."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.checking import plain_data
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.lookup import check_of
from autograder.checking.mistakes import Mistake
from autograder.checking.plain_data import Message, Plain
from autograder.checking.practice_pack import KEPT, OF_JUDGE, OF_MISTAKE, path_of
from autograder.checking.seeds import AGAIN_SEEDS, PRACTICE_SEEDS
from autograder.checking.single_thread import one_thread
from autograder.exercises.as_if import as_ifs
from autograder.exercises.model_answers import model_answer
from autograder.files import write_whole


def packed(exercise: str, check: Check) -> Message:
    """The pack of an exercise: its practice cases, measured, with what each mistake gives."""
    judge = check.judge
    cases = _cases(check, PRACTICE_SEEDS)
    return plain_data.pack(
        {name: getattr(check, name) for name in KEPT}
        | {name: getattr(judge, name) for name in OF_JUDGE}
        | {
            "observer": "" if check.is_formula else check.observe.__module__,
            "scenarios": judge.scenarios if isinstance(judge, Behaviour) else None,
            "cases": cases,
            "right": [judge.measurement(case) for case in cases],
            "mistakes": [*_recorded(exercise, check, cases)],
        }
    )


def new_sizes(check: Check) -> Message | None:
    """Cases of another seed, measured; None if it gives no other cases."""
    cases = _cases(check, AGAIN_SEEDS)
    right = [check.judge.measurement(case) for case in cases]
    pack = plain_data.pack({"cases": cases, "right": right})
    old = plain_data.pack(_cases(check, PRACTICE_SEEDS))
    return None if plain_data.pack(cases) == old else pack


def _cases(check: Check, seeds: Sequence[int]) -> list[Case]:
    return [case for seed in seeds for case in check.cases(seed)]


def write(path: Path, pack: Message | None) -> None:
    """Write a pack's files: one for tensors where there are some, and none without a pack."""
    tensors = path.with_suffix(".safetensors")
    for file in (path, tensors):
        file.unlink(missing_ok=True)
    if pack:
        write_whole(path, f"{pack.json}\n")
    if pack and pack.tensors:
        tensors.write_bytes(pack.tensors)


def _recorded(exercise: str, check: Check, cases: list[Case]) -> Iterator[Plain]:
    """What each mistake gives in each case; of generated ones, those that no other tells."""
    seen: set[str] = set()
    for mistake in _mistakes(exercise, check, cases):
        numbers = [mistake.numbers(case, check.judge) for case in cases]
        key = plain_data.pack(numbers).json
        if any(numbers) and not (mistake.is_generated and key in seen):
            seen.add(key)
            yield {name: getattr(mistake, name) for name in OF_MISTAKE} | {"numbers": numbers}


def _mistakes(exercise: str, check: Check, cases: list[Case]) -> list[Mistake]:
    """Those of the check, and of a formula the right answers to other cases, before mutations."""
    known = check.judge.mistakes
    if not check.is_formula:
        return known
    others = as_ifs(model_answer(exercise), cases, check.judge)
    return sorted([*others, *known], key=lambda each: each.is_generated)


@one_thread()
def main(exercises: Sequence[str]) -> None:
    """Write the packs of each exercise whose model answer stands in its text master, and say so."""
    for exercise in exercises:
        check = check_of(exercise)
        write(path_of(exercise), packed(exercise, check))
        write(path_of(exercise, again=True), new_sizes(check))
        print(f"    {exercise}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
