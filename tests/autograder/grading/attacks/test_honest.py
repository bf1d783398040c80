"""A mistake in an honest submission costs the answer that it is in, and no other point."""

import json

import nbformat
import pytest
import torch

from autograder.checking.answer_result import REMEMBERS
from autograder.grading.run import submission
from tests.autograder.grading.attacks.bank import AVAILABILITY, FORMULA
from tests.autograder.grading.attacks.test_attacks import FULL, HONEST, SEEDS, graded
from tests.autograder.grading.handed_in import cell_of, in_format, packed, plain, text
from tests.notebooks.filling import released, solved

POINTS = 2.0
COSTLY = (
    "endless answer",
    "endless and deaf",
    "deaf sleep",
    "signals ignored",
    "leaves in the answer",
    "leaves when called",
    "exit when called",
    "segmentation fault",
    "segmentation fault when called",
    "memory",
    "lines of megabytes",
    "many lines",
    "pages of 100 megabytes",
)
WARNINGS = {
    "by warnings": "import warnings; warnings.warn('this is old')",
    "by print": "import sys; print('careful', file=sys.stderr)",
    "by torch": "import torch; float(torch.ones(1, requires_grad=True))",
    "under Python": "import os; os.write(2, b'careful')",
}
RIGHT = """
import math

def tensor_bytes(shape, element_bytes):
    {warning}
    return math.prod(shape) * element_bytes

{warning}
"""


def points(outcome) -> dict[str, float]:
    return {verdict.exercise: verdict.points for verdict in outcome.result.verdicts}


@pytest.mark.parametrize("name", COSTLY)
def test_an_answer_that_ends_its_process_costs_itself_alone(name):
    """The same code in the cell of one exercise, and everything else solved."""
    (bad,) = (attack for attack in AVAILABILITY if attack.name == name)
    answers = solved(HONEST) | {FORMULA: bad.source}
    got = points(graded(HONEST, answers, list(answers)))
    assert got.pop(FORMULA) == 0
    assert sum(got.values()) == FULL - POINTS


@pytest.mark.parametrize("name", WARNINGS)
def test_a_right_answer_that_warns_keeps_its_points(name):
    answers = solved(HONEST) | {FORMULA: RIGHT.format(warning=WARNINGS[name])}
    assert sum(points(graded(HONEST, answers, list(answers))).values()) == FULL


REMEMBERING = """
import math

known = {}

def tensor_bytes(shape, element_bytes):
    known.setdefault(shape, math.prod(shape) * element_bytes)
    return known[shape]
"""


def test_an_answer_that_remembers_is_told_so_in_the_sandbox_too():
    answers = solved(HONEST) | {FORMULA: REMEMBERING}
    verdicts = graded(HONEST, answers, list(answers)).result.verdicts
    (hint,) = (each.hint for each in verdicts if each.exercise == FORMULA)
    assert hint == REMEMBERS


def test_torch_does_warn():
    torch.set_warn_always(True)  # else once in a process, where another test may have had it
    try:
        with pytest.warns(UserWarning, match="requires_grad"):
            float(torch.ones(1, requires_grad=True))
    finally:
        torch.set_warn_always(False)


def with_copy_of(name: str) -> bytes:
    content = plain()
    place = content["cells"].index(cell_of(content, name))
    content["cells"].insert(place, cell_of(content, name))
    return packed(content)


def with_version(version: int) -> bytes:
    content = plain()
    for cell in content["cells"]:
        cell["metadata"].get("nbgrader", {})["schema_version"] = version
    return packed(content)


def with_outputs(**outputs: object) -> bytes:
    content = plain()
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell.pop("outputs", None)
            cell.update(outputs)
    return packed(content)


def in_latin_1() -> bytes:
    content = plain()
    cell_of(content, "u00-view")["source"] = "Größe"
    return json.dumps(content, ensure_ascii=False).encode("latin-1", "replace")


def with_widgets(state: object) -> bytes:
    kind = "application/vnd.jupyter.widget-state+json"
    return packed(plain() | {"metadata": {"widgets": {kind: state}}})


NUM_CODE_CELLS = sum(cell["cell_type"] == "code" for cell in plain()["cells"])
LONG = "x" * (100 * 10**6 // NUM_CODE_CELLS)
LINES = [{"output_type": "stream", "name": "stdout", "text": LONG}]
FILES = {
    "answer copied": lambda: with_copy_of(FORMULA),
    "test copied": lambda: with_copy_of(f"{FORMULA}-test"),
    "version 1 of the marks": lambda: with_version(1),
    "version 99 of the marks": lambda: with_version(99),
    "mark of order": lambda: text().encode("utf-8-sig"),
    "UTF-16": lambda: text().encode("utf-16"),
    "Latin-1": in_latin_1,
    "format 3": lambda: packed(in_format(3)),
    "format 99": lambda: packed(plain() | {"nbformat": 99}),
    "another kernel": lambda: packed(plain() | {"metadata": {"kernelspec": {"name": "mine"}}}),
    "never run": lambda: with_outputs(outputs=[]),
    "no outputs": with_outputs,
    "outputs of 100 megabytes": lambda: with_outputs(outputs=LINES),
    "state of widgets": lambda: with_widgets({"version_major": 2, "state": {"a": {}}}),
    "broken state of widgets": lambda: with_widgets(7),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_editors_and_accidents_make_is_graded_whole(name):
    outcome = submission.grade(
        submission.Submission(
            unit=HONEST,
            student="ada",
            raw=FILES[name](),
            release=nbformat.writes(released(HONEST)),
            seeds=SEEDS,
        )
    )
    assert sum(points(outcome).values()) == FULL
    assert outcome.result.needs_human == ()
