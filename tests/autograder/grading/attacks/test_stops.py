"""No submission stops a run, fills a disk or shows a hidden case; bounds are small here."""

import socket
import threading

import nbformat
import psutil
import pytest

from autograder import catalogue
from autograder.grading.run import submission
from autograder.grading.run.bounded_process import Bounds, call
from autograder.grading.run.submission_limits import Limits
from autograder.grading.sandbox import framing
from autograder.grading.sandbox.client import ForkedConversation, GoneError
from autograder.grading.shown.outputs import MAX_BYTES
from tests.autograder.grading.attacks.bank import FORMULA
from tests.autograder.grading.attacks.test_attacks import (
    FULL,
    HONEST,
    SEEDS,
    cells_of,
    graded,
)
from tests.notebooks.filling import released, solved

LAST = ("tensor-bytes", "state-gib")
FLOOD = """
import base64
from IPython.display import display
picture = base64.b64encode(b"\\x89PNG\\r\\n\\x1a\\n" + bytes(30_000)).decode()
for _ in range(100): display({"image/png": picture}, raw=True)
"""
LINES = """
class Lines:
    def __repr__(self): return "\\n" * 8_000
for _ in range(100): display(Lines())
"""
SPINNERS = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        while True: pass
time.sleep(100)
"""
SHORT_LIVED = """
import os, time
while True:
    if os.fork() == 0:
        start = time.perf_counter()
        while time.perf_counter() < start + 0.05: pass
        os._exit(0)
    os.wait()
"""
COLLECTING = """
seen = []
def tensor_bytes(shape, element_bytes):
    seen.append((shape, element_bytes))
    print(shape)
    size = element_bytes
    for n in shape: size *= n
    return size
"""
MEBIBYTE = 2**20


def with_cells(*added, **named):
    """Everything solved, and cells around it."""
    return graded(HONEST, solved(HONEST), list(solved(HONEST)), added=added, **named)


def points(outcome):
    return sum(verdict.points for verdict in outcome.result.verdicts)


def shown(outcome, source):
    (cell,) = [cell for cell in cells_of(outcome) if cell.source == source]
    return "".join(each.get("text", "") for each in cell.outputs)


def handed_in(raw, bounds):
    release = nbformat.writes(released(HONEST))
    return submission.grade(
        submission.Submission(
            unit=HONEST, student="eve", raw=raw, release=release, seeds=SEEDS, bounds=bounds
        )
    )


def test_cells_that_take_long_to_read_end_the_grading_of_one_submission():
    """What a cell defines is read from its syntax tree, in linear time."""
    outcome = with_cells(*["x = 1\n" * 16_000] * 60, bounds=Bounds(cpu_seconds=1))
    why = "It was not graded: it takes more than 1 seconds of processor time."
    assert outcome.result.needs_human == (why,)
    assert outcome.is_final
    assert points(outcome) == 0
    assert points(with_cells()) == FULL


@pytest.mark.parametrize("flood", [FLOOD, LINES], ids=["pictures", "lines"])
def test_outputs_together_are_bounded(flood):
    outcome = with_cells(*(f"# {n}\n{flood}" for n in range(4)))
    blank = with_cells()
    assert 0.5 * MAX_BYTES < len(outcome.notebook) - len(blank.notebook) < 1.1 * MAX_BYTES
    left_out = "The rest is left out: a notebook's outputs have 5 MB together.\n"
    assert shown(outcome, f"# 3\n{flood}") == left_out
    assert points(outcome) == FULL


def test_a_picture_of_a_million_bytes_costs_nothing():
    """A longer text than crosses is dropped where it is made."""
    big = FLOOD.replace("30_000", "1_000_000")
    assert points(with_cells(big)) == FULL


def test_sleeping_is_bounded_by_the_clock():
    limits = Limits(cell_seconds=30.0, answer_seconds=30.0, total_seconds=4.0)
    sleep = "import time\ntime.sleep(1.5)"
    outcome = with_cells(*(f"{sleep} # {n}" for n in range(4)), limits=limits)
    why = "This cell was stopped: all cells and answers together take more than 4 seconds.\n"
    assert [shown(outcome, f"{sleep} # {n}") for n in range(4)] == ["", "", why, why]
    assert points(outcome) == 0


@pytest.mark.parametrize("spinning", [SPINNERS, SHORT_LIVED], ids=["few", "many"])
def test_processor_time_of_children_counts(spinning):
    limits = Limits(cell_seconds=20.0, answer_seconds=10.0, child_seconds=1.0)
    outcome = with_cells(spinning, limits=limits)
    assert shown(outcome, spinning) == "This cell was stopped: its process ended.\n"
    assert 1.0 <= outcome.result.cpu_seconds < 20
    assert points(outcome) == FULL


def test_a_file_of_brackets_takes_no_memory_here():
    before = psutil.Process().memory_info().rss
    raw = b'{"cells": [' + b"[],{}," * 1_000_000 + b"0]}"
    outcome = handed_in(raw, Bounds(new_bytes=200 * MEBIBYTE))
    (why,) = outcome.result.needs_human  # of its size, or of the memory that reading it takes
    assert why.startswith("The file is no notebook: it ")
    assert psutil.Process().memory_info().rss - before < 50 * MEBIBYTE


def test_a_reply_of_brackets_ends_where_it_is_read():
    ours, theirs = socket.socketpair()
    text = b"[" + b"[]," * 5_000_000 + b"0]"
    frames = b"".join(framing.LENGTH.pack(len(each)) + each for each in (text, b""))

    def read():
        try:
            return repr(ForkedConversation(ours, ours).ask({}, 60)).encode()
        except GoneError as gone:
            return str(gone).encode()

    sender = threading.Thread(target=theirs.sendall, args=(frames,))
    sender.start()
    said = call(read, Bounds(new_bytes=200 * MEBIBYTE))
    assert said == b"its process sent something that is no plain data"
    sender.join()
    for each in (ours, theirs):
        each.close()


def test_a_result_beyond_its_bound_is_not_taken():
    outcome = with_cells("1", bounds=Bounds(result_bytes=1_000))
    why = "It was not graded: it takes more memory than one submission may."
    assert outcome.result.needs_human == (why,)


def test_no_output_holds_what_an_answer_has_seen():
    answers = solved(HONEST) | {FORMULA: COLLECTING}
    last = ("print('seen', seen)", "'again', seen")
    outcome = graded(HONEST, answers, list(answers), last=last)
    assert points(outcome) == FULL
    assert shown(outcome, last[0]) == "seen []\n"
    (again,) = [cell for cell in cells_of(outcome) if cell.source == last[1]]
    assert again.outputs[0].data["text/plain"] == "('again', [])"


def test_the_last_cell_that_defines_a_function_is_the_answer():
    """It stands behind the question, and counts all the same."""
    last = ("def tensor_bytes(*_): return 0", "def state_gib(*_): return 0")
    earned = points(with_cells(last=last))
    assert earned == FULL - sum(catalogue.exercise(f"u00-{n}").points for n in LAST)
