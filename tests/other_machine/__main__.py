"""Try answers on another machine against what this one recorded; print each verdict that differs.

    python -m tests.other_machine other-kernels-0 --answers model right --part 0/4
    python -m tests.other_machine old --answers edits --share 20 --exercises u09

The libraries read the environment when they are loaded, so this process starts itself once more.
"""

import argparse
import os
import subprocess
import sys

from tests.other_machine.machines import MACHINES, Machine

STARTED = "COURSE_TESTS_OTHER_MACHINE"


def main(arguments: list[str]) -> int:
    """Try the chosen answers; 1 if a verdict differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.other_machine")
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("--answers", nargs="+", default=["model"], help="model right wrong edits")
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
    from tests.sampling import is_chosen
    from tests.trying.answers import answers

    number, num_parts = map(int, options.part.split("/"))
    chosen = [
        each
        for each in answers(options.answers, options.exercises)
        if each.is_right or is_chosen(each.exercise, each.name, options.share)
    ]
    exercises = [*dict.fromkeys(each.exercise for each in chosen)][number::num_parts]
    tried = [each for each in chosen if each.exercise in exercises]
    complaints = [complaint for each in tried if (complaint := each.complaint())]
    print(*complaints, sep="\n", end="\n" * bool(complaints))
    print(f"{len(tried)} answers tried, {len(complaints)} verdicts differ.")
    return int(bool(complaints))


def become(machine: Machine) -> None:
    """Imitate a machine in this process, before the course is loaded."""
    import torch

    from tests.other_machine import digits, kernels

    torch.set_num_threads(int(machine.environment["OMP_NUM_THREADS"]))
    if machine.seed is not None:
        digits.install(machine.seed)
        kernels.install(machine.seed)
    if machine.sums_otherwise:
        digits.sum_otherwise()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
