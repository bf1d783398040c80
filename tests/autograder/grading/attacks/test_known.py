"""The table of known attacks is complete, and every test that it names exists and runs."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.autograder.grading.attacks.known import (
    AVAILABILITY,
    HERE,
    KNOWN,
    MALFORMED,
    MARKS,
    SECRETS,
)
from tests.notebooks.filling import ROOT

COLLECT = "pytest -p tests.running -p no:cacheprovider -n 0 --collect-only -q"
NAMED = {test for known in KNOWN for test in known.tests}
BESIDE = (f"{HERE}/test_class.py", f"{HERE}/test_honest.py")
OF_ALL_LINES = {
    f"{HERE}/test_class.py::test_everybody_is_graded",
    f"{HERE}/test_honest.py::test_an_answer_that_remembers_is_told_so_in_the_sandbox_too",
}


@pytest.fixture(scope="module")
def collected():
    """Ids of all tests in the files that the table names, as pytest finds them."""
    files = sorted({test.split("::")[0] for test in NAMED})
    done = subprocess.run(
        [sys.executable, "-m", *COLLECT.split(), *files],
        cwd=ROOT,
        env=os.environ | {"ALL_ATTACKS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return set(done.stdout.splitlines())


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known.number} {known.what}")
def test_every_line_is_held_by_tests_that_exist(known, collected):
    assert known.tests
    assert set(known.tests) <= collected


def test_every_known_attack_has_one_line():
    """Counted where nbgrader was tried: marks, secrets, availability, malformed files."""
    assert [len(part) for part in (MARKS, SECRETS, AVAILABILITY, MALFORMED)] == [28, 7, 26, 27]
    assert [known.number for known in KNOWN] == list(range(1, 89))
    assert max(Counter(known.what for known in KNOWN).values()) == 1


def test_no_two_lines_rest_on_the_same_tests():
    assert max(Counter(known.tests for known in KNOWN).values()) == 1
    assert all(len(set(known.tests)) == len(known.tests) for known in KNOWN)


def test_what_stands_beside_the_bank_is_in_the_table(collected):
    """Every test of whole classes and of honest submissions answers to a line."""
    beside = {test for test in collected if test.startswith(BESIDE)}
    assert beside - NAMED == OF_ALL_LINES
