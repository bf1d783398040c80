"""`make grade UNIT=01`: grade the submissions of a unit, with a progress bar and a summary."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from autograder.commands import ROOT, stops_with_a_sentence
from autograder.grading.gradebook.submission_status import what_waits, who_was_late
from autograder.grading.result import SubmissionResult
from autograder.grading.run.run import Options, Run, configuration, left_out, nothing_to_do
from autograder.grading.sandbox import protection

USAGE = 'make grade UNIT=01 [ARGS="--jobs 4 --student ada,grace"]'


@stops_with_a_sentence
def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Grade and print what happened; 0 unless something stopped the run."""
    unit, options = _parsed(arguments)
    try:
        run = Run(root, unit, options, configuration(root))
        for line in (*left_out(root, run.unit), *filter(None, [run.unreleased])):
            print(line)
        if not options.scheduler:
            print("\n".join(protection.describe(options.is_unsafe)))
        start = time.perf_counter()
        results = _graded(run)
    except KeyboardInterrupt:
        again = "begins anew" if options.begins_anew else "goes on where it was"
        print(f"Stopped; run it again and it {again}.", file=sys.stderr)
        return 130
    lines = summary(results, len(run.students), time.perf_counter() - start)
    print("\n".join(lines + changes(run.earlier, results)))
    unchanged = set(run.students) - {result.student for result in results}
    unchanged &= run.store.waiting(run.unit)
    for result in run.store.results(run.unit).values():
        if result.for_a_person and result.student in unchanged:
            print(f"  {result.student}: still needs a human: {' '.join(result.for_a_person)}")
    found = run.store.statuses(run.unit)
    print("\n".join([*what_waits(found), *who_was_late(found)]) or "Nothing waits for a reader.")
    return 0


def summary(results: Sequence[SubmissionResult], num_students: int, seconds: float) -> list[str]:
    """A line on how many were graded, then one for each reason and remark."""
    if not results:
        return [f"{nothing_to_do(num_students)} `--again` grades them again."]
    states = Counter(result.state for result in results)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    number = f"{len(results)} submission{'s' if len(results) > 1 else ''}"
    rate = f"one every {seconds / len(results):.2f} s, {num_students - len(results)} unchanged"
    lines = [f"{number} in {seconds:.1f} s ({rate}): {counts}"]
    for result in sorted(results, key=lambda each: each.student):
        lines += [f"  {result.student}: needs a human: {why}" for why in result.for_a_person]
        lines += [f"  {result.student}: {remark}" for remark in result.remarks]
    return lines


def changes(
    earlier: Mapping[str, SubmissionResult], results: Sequence[SubmissionResult]
) -> list[str]:
    """A line for each exercise whose points changed for unchanged answers, or that none did."""
    changed: dict[str, list[str]] = {}
    pairs = ((earlier.get(each.student), each) for each in results)
    same = [(old, new) for old, new in pairs if old and _has_same_answers(old, new)]
    for before, result in sorted(same, key=lambda pair: pair[1].student):
        points = {each.exercise: each.points for each in before.verdicts}
        for each in result.verdicts:
            if (old := points.get(each.exercise, each.points)) != each.points:
                changed.setdefault(each.exercise, []).append(
                    f"{result.student} {old:g} → {each.points:g}"
                )
    if same and not changed:
        return ["Nobody's points have changed for the same answers."]
    return [
        f"  {name}: other points than before: {', '.join(who)}" for name, who in changed.items()
    ]


def _has_same_answers(one: SubmissionResult, other: SubmissionResult) -> bool:
    """Whether the answers to all exercises that both have are the same."""
    both = one.answers.keys() & other.answers.keys()
    return bool(both) and all(one.answers[name] == other.answers[name] for name in both)


def _graded(run: Run) -> list[SubmissionResult]:
    """Grade under a bar that counts results with remarks and results that need a human."""
    states: Counter[str] = Counter()
    with tqdm(total=len(run.students), unit="submission", file=sys.stdout) as bar:

        def count(result: SubmissionResult) -> None:
            states[result.state] += 1
            with_remarks, for_a_human = states["graded with remarks"], states["needs a human"]
            bar.set_postfix_str(f"{with_remarks} with remarks, {for_a_human} for a human")
            bar.update()

        return run.grade(count)


def _parsed(arguments: Sequence[str] | None) -> tuple[str, Options]:
    """The unit, and how to grade it."""
    parser = argparse.ArgumentParser(prog="make grade", usage=USAGE, description=__doc__)
    parser.add_argument("unit", help="number or folder of the unit")
    parser.add_argument("--jobs", type=int, default=Options.jobs, help="processes")
    parser.add_argument("--student", default="", help="only these, with commas between them")
    parser.add_argument("--exercise", default="", help="ask again for this exercise only")
    parser.add_argument("--again", action="store_true", help="also what is graded already")
    parser.add_argument("--scheduler", default="", help="address of a Dask scheduler")
    parser.add_argument("--unsafe", action="store_true", help="without the sandbox")
    given = vars(parser.parse_args(arguments))
    students = tuple(filter(None, given.pop("student").split(",")))
    return given.pop("unit"), Options(students=students, is_unsafe=given.pop("unsafe"), **given)
