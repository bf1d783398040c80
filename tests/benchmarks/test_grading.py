"""Time to grade a class, by our engine and by nbgrader's own, and whether memory stays flat.

Grades a few submissions of one unit; `CLASS_SIZE=20` in the environment makes it sixty, of three.
`MANY_SUBMISSIONS=1000` grades that many of one unit and reports memory and rate.
"""

import contextlib
import os
import shutil
import statistics
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from autograder.grading.run.run import Options, Run, configuration
from tests.autograder.grading.course_folder import Course
from tests.autograder.grading.end_to_end.test_stock_nbgrader import BY_PLUGIN
from tests.autograder.grading.small import Small, generated
from tests.needs import SANDBOX, needs
from tests.notebooks.filling import composite, solved

__all__ = ["generated"]

pytestmark = needs(SANDBOX)

# The lightest unit, one of formulas, and one in which the student's own code computes most.
MIXED = ["00_start_here", "01_transformer_flops", "07_mixed_precision"]
CLASS_SIZE = int(os.environ.get("CLASS_SIZE", "3"))
GRADED = MIXED if "CLASS_SIZE" in os.environ else MIXED[:1]
NUM_MANY = int(os.environ.get("MANY_SUBMISSIONS", "0"))
NUM_STOCK = 2
MIB = 2**20


@dataclass
class Times:
    """Seconds by the clock for a class of one unit.

    Attributes:
        start: Until the first result is written.
        rest: From the first result to the last.
        cells: Processor time of the students' code alone, divided by the number of cores.
        stock: What nbgrader's own engine takes for the same submissions, one after the other.
        writing: Median milliseconds to store the result of a submission.
    """

    start: float
    rest: float
    cells: float
    stock: float
    writing: int


def hand_in_a_class(course: Course, unit: str) -> None:
    """Of ten students seven are right, two are wrong everywhere, and one is blank."""
    for n in range(CLASS_SIZE):
        wrong = solved(unit) | composite(unit, n // 10)
        kind = n % 10 if CLASS_SIZE >= 10 else 7 + n
        answers = {7: wrong, 8: wrong, 9: {}}.get(kind, solved(unit))
        course.hand_in(f"s{n:03}", unit, answers)


def graded(course: Course, unit: str) -> Times:
    """A class of a unit, graded by our engine with all cores and, a part of it, by nbgrader's."""
    course.run("generate_assignment", unit)
    hand_in_a_class(course, unit)
    ours = Small(Path(shutil.copytree(course.folder, course.folder.parent / unit)))
    run = Run(ours.root, unit, Options(), configuration(ours.root))
    moments, writing = [time.perf_counter()], []
    put = run.store.put

    def timed_put(*arguments) -> None:
        start = time.perf_counter()
        put(*arguments)
        writing.append(time.perf_counter() - start)

    run.store.put = timed_put
    results = run.grade(lambda _: moments.append(time.perf_counter()))
    begin = time.perf_counter()
    course.run("autograde", unit, f"--student=s00[0-{NUM_STOCK - 1}]")
    return Times(
        start=moments[1] - moments[0],
        rest=moments[-1] - moments[1],
        cells=sum(each.cpu_seconds for each in results) / (os.cpu_count() or 1),
        stock=(time.perf_counter() - begin) / NUM_STOCK * CLASS_SIZE,
        writing=round(1e3 * statistics.median(writing)),
    )


def test_classes_of_several_units(tmp_path, monkeypatch, record_property):
    monkeypatch.setenv("COURSE_GRADING_SEED", "a secret of this test")
    course = Course(tmp_path)
    config = course.folder / "course_config.py"
    config.write_text(config.read_text().split(BY_PLUGIN)[0])
    times = {unit: graded(course, unit) for unit in GRADED}
    for unit, each in times.items():
        told = (each.start, each.rest, each.cells, each.stock)
        record_property(
            f"{unit}, {CLASS_SIZE} submissions: start, the rest, its cells alone, nbgrader's own "
            f"({NUM_STOCK} of them, scaled)",
            " / ".join(f"{seconds:.1f}" for seconds in told) + " s",
        )
        record_property(f"{unit}: to store a result, in the median", f"{each.writing} ms")
    ours = sum(each.start + each.rest for each in times.values())
    stock = sum(each.stock for each in times.values())
    rest, cells = (
        sum(getattr(each, name) for each in times.values()) for name in ("rest", "cells")
    )
    record_property("nbgrader's own over ours, starts and all", round(stock / ours, 1))
    record_property("ours after the starts over the cells alone", round(rest / cells, 2))


@pytest.mark.skipif(not NUM_MANY, reason="MANY_SUBMISSIONS says how many")
def test_memory_and_rate_stay_the_same(generated, tmp_path, monkeypatch, record_property):
    monkeypatch.setenv("COURSE_GRADING_SEED", "a secret of this test")
    small = generated.copy(tmp_path / "course")
    small.hand_in_a_class(NUM_MANY)
    moments, memory = [], []

    def on_result(_) -> None:
        moments.append(time.perf_counter())
        if len(moments) % (NUM_MANY // 10) == 0:
            memory.append({name: max(each) for name, each in resident().items()})

    small.grade(on_result, jobs=os.cpu_count())
    for name in memory[0]:
        record_property(f"{name}, MiB, tenth by tenth", [each[name] // MIB for each in memory])
    tenth = NUM_MANY // 10
    ends = moments[tenth - 1 :: tenth]
    seconds = [round(b - a, 1) for a, b in pairwise(ends)]
    record_property(f"seconds for {tenth} submissions, tenth by tenth", seconds)
    for name in memory[0]:
        assert memory[-1][name] < 1.1 * statistics.median(each[name] for each in memory[:3])


def resident() -> dict[str, list[int]]:
    """Resident bytes of this process, the grading processes, and the fork server."""
    found: dict[str, list[int]] = {"writer": [psutil.Process().memory_info().rss]}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # some of them end while one looks
            words, size = " ".join(process.cmdline()), process.memory_info().rss
            name = (
                "sandbox" if "fork_server" in words else "grader" if "forkserver" in words else ""
            )
            if name and size > 100 * MIB:
                found.setdefault(name, []).append(size)
    return found
