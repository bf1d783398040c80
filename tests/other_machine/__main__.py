"""Try answers on another machine against what this one recorded; print each verdict that differs.

    python -m tests.other_machine other-kernels-0 --answers model right --part 0/4
    python -m tests.other_machine old --answers edits --share 20 --exercises u09

The libraries read the environment when they are loaded, so this process starts itself once more.
"""

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.other_machine.machines import MACHINES, Machine

KINDS = ("model", "right", "wrong", "edits")
STARTED = "COURSE_TESTS_OTHER_MACHINE"


class Tried(NamedTuple):
    """An answer and what its verdict has to be.

    Attributes:
        exercise: Its id.
        name: Which answer it is.
        make: Makes it.
        points: What it earns; None for all points.
        hint: What its hint contains.
        again: Whether on new sizes.
    """

    exercise: str
    name: str
    make: object
    points: float | None = None
    hint: str = ""
    again: bool = False


def main(arguments: list[str]) -> int:
    """Try the chosen answers; 1 if a verdict differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.other_machine", description=__doc__)
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("--answers", nargs="+", choices=KINDS, default=["model"])
    parser.add_argument("--exercises", default="", help="only those whose id begins so")
    parser.add_argument("--part", default="0/1", help="k/n: the k-th of n parts of them")
    parser.add_argument("--share", type=int, default=1, help="one of so many wrong answers")
    options = parser.parse_args(arguments)
    machine = MACHINES[options.machine]
    if os.environ.get(STARTED) != options.machine:
        environment = os.environ | machine.environment | {STARTED: options.machine}
        command = [sys.executable, "-m", "tests.other_machine", *arguments]
        return subprocess.run(command, env=environment, check=False).returncode
    become(machine)
    number, num_parts = map(int, options.part.split("/"))
    chosen = [
        each for each in _answers(options.answers) if each.exercise.startswith(options.exercises)
    ]
    exercises = [*dict.fromkeys(each.exercise for each in chosen)][number::num_parts]
    rng = random.Random(0)
    tried = [
        each
        for each in chosen
        if (each.points is None or not rng.randrange(options.share)) and each.exercise in exercises
    ]
    differing = sum(_differs(each) for each in tried)
    print(f"{len(tried)} answers tried, {differing} verdicts differ.")
    return int(differing > 0)


def become(machine: Machine) -> None:
    """Imitate a machine in this process, before the course is loaded."""
    import torch

    from tests.other_machine import digits, kernels

    torch.set_num_threads(int(machine.environment["OMP_NUM_THREADS"]))
    if machine.seed is not None:
        digits.install(machine.seed)
        become.kept = kernels.install(machine.seed)
    if machine.sums_otherwise:
        digits.sum_otherwise()


def _answers(kinds: list[str]) -> Iterator[Tried]:
    from autograder.checking import practice_pack
    from autograder.checking.lookup import check_of
    from autograder.exercises.model_answers import ChangedAnswer, model_answer
    from tests.answer_bank import make
    from tests.answer_bank.every import ANSWER_BANKS

    for exercise, bank in ANSWER_BANKS.items():
        if "model" in kinds:
            yield Tried(exercise, "the model answer", lambda e=exercise: model_answer(e))
            if practice_pack.path_of(exercise, again=True).exists():
                yield Tried(
                    exercise, "the model answer", lambda e=exercise: model_answer(e), again=True
                )
        if "right" in kinds:
            for number, source in enumerate(bank.right):
                yield Tried(
                    exercise, f"right answer {number}", lambda s=source, b=bank: make(s, b.function)
                )
        if "wrong" in kinds:
            for each in bank.wrong:
                yield Tried(
                    exercise,
                    each.name,
                    lambda s=each.source, b=bank: make(s, b.function),
                    each.points,
                    each.hint,
                )
        if "edits" in kinds:
            for number, each in enumerate(check_of(exercise).judge.mistakes):
                if isinstance(each, ChangedAnswer) and not each.is_generated:
                    yield Tried(
                        exercise, f"edit {number}", lambda m=each: m.answer, each.points, each.hint
                    )


def _differs(tried: Tried) -> bool:
    """Whether a verdict is another one than it has to be; prints it."""
    from autograder import catalogue
    from autograder.checking.lookup import practice_check_of
    from autograder.checking.scoring import score_answer
    from autograder.checking.seeds import AGAIN_SEEDS, PRACTICE_SEEDS

    check = practice_check_of(tried.exercise, again=tried.again)
    seeds = AGAIN_SEEDS if tried.again else PRACTICE_SEEDS
    points = catalogue.exercise(tried.exercise).points
    result = score_answer(check, tried.make(), seeds)
    verdict = result.verdict(tried.exercise, points, tell_all=True)
    wanted = points if tried.points is None else tried.points
    is_same = verdict.points == wanted and tried.hint in verdict.hint
    if not is_same:
        text = str(verdict).replace("\n", " | ")
        print(f"{tried.exercise}, {tried.name}: {wanted} points wanted; {text}", flush=True)
    return not is_same


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
