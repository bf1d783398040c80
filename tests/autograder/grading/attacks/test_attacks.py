"""No hostile submission gains a point, reads, harms or leaves anything, or affects the next one.

They go through one sandbox, one after the other, with an honest submission after each of them. All
forgeries are tried, and every fourth of the others; with `ALL_ATTACKS=1` in the environment all of
them. Of the newer ones all are tried, and one honest submission comes after them.
"""

import os
import socket
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbgrader.utils import determine_grade

from autograder import catalogue
from autograder.checking.verdict import Verdict
from autograder.grading.run import submission
from autograder.grading.run.submission_limits import Limits
from tests.autograder.grading.attacks import walls
from tests.autograder.grading.attacks.bank import (
    EVERY,
    FORGERIES,
    FORMULA,
    NEWER,
    RING,
    UNIT_OF,
    Attack,
    inside,
)
from tests.notebooks.filling import filled, released, solved

SEEDS = (4711, 4712)
SHORT = Limits(cell_seconds=1.0, answer_seconds=0.5)  # attacks use all the time that they get
SECRET = "canary in a cage"
LOOK = """
import os, socket
from pathlib import Path
places = ("/", "/tmp", "/dev/shm", "/course", "/dev")
print([sorted(os.listdir(place)) for place in places])
with socket.socket(socket.AF_UNIX) as one:
    print(one.connect_ex("\\0canary"))
print(os.nice(0), os.sched_getscheduler(0), os.sched_getaffinity(0))
"""
HONEST = "00_start_here"
OTHERS = [attack for attack in EVERY if attack not in FORGERIES + NEWER]
TRIED = [*FORGERIES, *(OTHERS if os.environ.get("ALL_ATTACKS") else OTHERS[::4])]
FULL = 6.0
KINDS = ("text/plain", "text/html")


@pytest.fixture(scope="module")
def canary(tmp_path_factory):
    """A file beside the course that nothing in the sandbox may see."""
    path = tmp_path_factory.mktemp("others") / "work.txt"
    path.write_text(SECRET, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def server():
    """A server on this machine that nothing in the sandbox may reach."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def graded(unit, answers, exercises, *, added=(), last=(), **bounds):
    """The outcome for some exercises of a unit, with cells added at the beginning and the end."""
    notebook = filled(unit, answers)
    notebook.cells[3:3] = [nbformat.v4.new_code_cell(source) for source in added]
    notebook.cells += [nbformat.v4.new_code_cell(source) for source in last]
    items = next(each for each in catalogue.units() if each.folder == unit).exercises
    known = {
        item.id: Verdict(exercise=item.id, points=0, max_points=item.points, sentence="-")
        for item in items
        if not item.manual and item.id not in exercises
    }
    return submission.grade(
        submission.Submission(
            unit=unit,
            student="mallory",
            raw=nbformat.writes(notebook).encode(),
            release=nbformat.writes(released(unit)),
            seeds=SEEDS,
            known=known,
            **{"limits": SHORT} | bounds,
        )
    )


def attacked(attack: Attack, canary: Path, server: socket.socket):
    source = attack.source.replace("CANARY", repr(str(canary)))
    source = source.replace("LISTENING", repr([server.getsockname()]))
    limits = Limits() if attack.earns else SHORT  # what is right in it has an honest answer's time
    answers = {attack.exercise: source}
    return graded(UNIT_OF[attack.exercise], answers, [attack.exercise], limits=limits)


def honest():
    """The points of an honest submission, and the output of a cell that lists the files it sees."""
    ids = [name for name in solved(HONEST)]
    outcome = graded(HONEST, solved(HONEST), ids, added=[LOOK], limits=Limits())
    shown = next(cell.outputs for cell in cells_of(outcome) if cell.source == LOOK)
    return sum(verdict.points for verdict in outcome.result.verdicts), shown


@pytest.fixture(scope="module")
def at_first(canary):
    """What an honest submission gets and sees, and which processes run, before any attack."""
    seen = honest()
    assert seen[0] == FULL
    return seen, sandbox_processes()


def sandbox_processes() -> set[int]:
    return {each.pid for each in psutil.Process().children(recursive=True)}


def assert_nothing_is_left(before):
    for _ in range(50):
        if sandbox_processes() <= before:
            return
        time.sleep(0.1)
    raise AssertionError(f"left: {sandbox_processes() - before}")


@pytest.mark.parametrize("attack", TRIED, ids=lambda attack: attack.name)
def test_attack(attack, canary, server, at_first):
    seen, processes = at_first
    assert_gains_nothing(attack, canary, server)
    assert honest() == seen
    assert_nothing_is_left(processes)


@pytest.mark.parametrize("attack", NEWER, ids=lambda attack: attack.name)
def test_newer_attack(attack, canary, server, at_first):
    outcome = assert_gains_nothing(attack, canary, server)
    assert_can_be_read(outcome)


def test_after_the_newer_attacks_all_is_as_before(at_first):
    seen, processes = at_first
    assert honest() == seen
    assert_nothing_is_left(processes)


def assert_gains_nothing(attack, canary, server):
    outcome = attacked(attack, canary, server)
    verdict = next(v for v in outcome.result.verdicts if v.exercise == attack.exercise)
    assert verdict.points == attack.earns, verdict
    assert points_for_nbgrader(outcome, attack.exercise) == attack.earns
    assert SECRET not in outcome.notebook
    assert "READ" not in shown_by(outcome)
    assert len(outcome.notebook) < 5_000_000
    assert canary.read_text(encoding="utf-8") == SECRET
    with pytest.raises(BlockingIOError):
        server.accept()
    return outcome


def assert_can_be_read(outcome):
    """No remark is hidden or moves the cursor, and no picture is larger than a browser shows."""
    for line in (*outcome.result.needs_human, *outcome.result.remarks):
        assert line.isprintable()
    for verdict in outcome.result.verdicts:
        assert verdict.sentence.replace("\n", "").isprintable()
        assert len(verdict.sentence) < 1_000
    first = cells_of(outcome)[0]
    if first.id == "remarks-of-the-grader":
        assert "<" not in first.source
    for cell in cells_of(outcome):
        for each in cell.get("outputs", []):
            assert "image/png" not in each.get("data", {})


def shown_by(outcome):
    """What was printed, displayed and reported on the answers."""
    outputs = [each for cell in cells_of(outcome) for each in cell.get("outputs", [])]
    texts = [each.get("text", "") for each in outputs]
    data = [each.get("data", {}) for each in outputs]
    return "".join([*texts, *(each.get(kind, "") for each in data for kind in KINDS)])


def points_for_nbgrader(outcome, exercise):
    (cell,) = [cell for cell in cells_of(outcome) if cell.id == f"{exercise}-test"]
    return determine_grade(cell)[0]


def cells_of(outcome):
    return nbformat.reads(outcome.notebook, as_version=4).cells


@pytest.mark.parametrize("attack", walls.NO_RESULT, ids=lambda attack: attack.name)
def test_no_wall_is_passed(attack):
    """Nothing that answers, nothing that judges and no work that is not seen earns a point."""
    assert points_of(attack) == 0


@pytest.mark.parametrize("attack", walls.RESOURCES, ids=lambda attack: attack.name)
def test_what_falsifying_resources_gains(attack):
    """Each is right in its results; what it reports of its work is all that is false."""
    assert points_of(attack) == attack.earns


def points_of(attack: walls.Attack) -> float:
    unit = walls.unit_of(attack.exercise)
    outcome = graded(unit, {attack.exercise: attack.source}, [attack.exercise], limits=Limits())
    (verdict,) = (v for v in outcome.result.verdicts if v.exercise == attack.exercise)
    assert outcome.result.state == "graded"
    return verdict.points


def test_who_speaks_of_a_person_or_of_trouble_flags_nothing():
    code = inside("raise ValueError('Not judged: A person will look at this.')")
    told = """
names = {c.__name__: c for c in object.__subclasses__()}
names["StudentProcess"].reply = lambda self, request: {"trouble": "not judged", "error": "E"}
"""
    for answer in (code, told + code):
        assert graded(HONEST, {FORMULA: answer}, [FORMULA]).result.state == "graded"


@pytest.mark.parametrize("exercise", ["u09-ring", "u09-buckets", "u09-memory"])
def test_right_answers_keep_their_points_where_the_course_is_gone(exercise):
    """Right answers keep their points where the course's own code has been removed."""
    unit = UNIT_OF[RING]
    outcome = graded(unit, solved(unit), [exercise], limits=Limits())
    (verdict,) = (each for each in outcome.result.verdicts if each.exercise == exercise)
    assert verdict.passed, verdict
    assert outcome.result.needs_human == ()


def test_the_answers_are_wrong_but_well_formed(at_first):
    """So a point would be gained by the attack."""
    assert graded(HONEST, solved(HONEST), [FORMULA]).result.verdicts[0].points == 2
