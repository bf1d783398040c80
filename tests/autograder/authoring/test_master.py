"""A broken master is told with every mistake in it; a sound one becomes a notebook."""

import json

import pytest

from autograder.authoring import master
from autograder.authoring.master import MasterError
from tests.autograder.authoring import tiny


def broken(**changes: str) -> dict[str, str]:
    return tiny.parts() | changes


WITHOUT_POINTS = tiny.nbgrader("u00-tensor-bytes-test", grade=True, locked=True)
OPEN_TEST = tiny.nbgrader("u00-tensor-bytes-test", grade=True, points=2)
OTHER_CARD = json.dumps(tiny.CARD | {"id": "u00-other"})
POOR_CARD = json.dumps({"id": "u00-tensor-bytes", "title": "Bytes"})
NO_BODY = "def tensor_bytes(shape, element_bytes):\n    return 24"
EMPTY_BODY = "def f():\n    ### BEGIN SOLUTION\n\n    ### END SOLUTION"

BROKEN = {
    "duplicate ids": (
        broken(again=tiny.parts()["solution"]),
        "the id u00-tensor-bytes stands on 2 cells",
    ),
    "a graded cell without points": (
        broken(graded=tiny.cell(tiny.GRADED_CODE, WITHOUT_POINTS)),
        "u00-tensor-bytes-test: a graded cell needs points",
    ),
    "a solution cell without a body": (
        broken(solution=tiny.cell(NO_BODY, tiny.nbgrader("u00-tensor-bytes", solution=True))),
        "u00-tensor-bytes: a solution cell needs a body",
    ),
    "a solution cell with an empty body": (
        broken(solution=tiny.cell(EMPTY_BODY, tiny.nbgrader("u00-tensor-bytes", solution=True))),
        "u00-tensor-bytes: a solution cell needs a body",
    ),
    "a solution in an ordinary cell": (
        broken(solution=tiny.cell(tiny.SOLUTION_CODE)),
        "a solution stands in a cell that is not marked as one",
    ),
    "a hidden test outside a locked cell": (
        broken(graded=tiny.cell(tiny.GRADED_CODE, OPEN_TEST)),
        "a hidden test stands outside a locked, graded cell",
    ),
    "a hidden test in an ordinary cell": (
        broken(extra=tiny.cell("### BEGIN HIDDEN TESTS\n1\n### END HIDDEN TESTS")),
        "a hidden test stands outside a locked, graded cell",
    ),
    "no call of check": (
        broken(graded=tiny.parts()["graded"].replace("check(", "chekc(", 1)),
        'it must call check("u00-tensor-bytes", ...)',
    ),
    "no call of grade at the end": (
        broken(graded=tiny.parts()["graded"].replace("grade(", "print(", 1)),
        'its hidden test must end with grade("u00-tensor-bytes", ...)',
    ),
    "a graded cell without a card": (
        broken(card=tiny.markdown("**Write** it.", f"exercise={OTHER_CARD}")),
        "no card before it says `exercise` with the id u00-tensor-bytes",
    ),
    "a card without a graded cell": (
        broken(card=tiny.markdown("**Write** it.", f"exercise={OTHER_CARD}")),
        "the card of u00-other has no graded cell",
    ),
    "a card that says too little": (
        broken(card=tiny.markdown("**Write** it.", f"exercise={POOR_CARD}")),
        "lacks difficulty, importance, minutes",
    ),
    "a header without a title": (
        broken(header=tiny.HEADER.replace("title: Tiny", "name: Tiny")),
        "the header's `course` lacks `title`",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_master_is_refused_with_the_reason(tmp_path, name):
    cells, reason = BROKEN[name]
    with pytest.raises(MasterError) as refusal:
        master.read(tiny.make_course(tmp_path, cells))
    assert reason in str(refusal.value)


def test_all_mistakes_are_told_at_once(tmp_path):
    cells = broken(
        header=tiny.HEADER.replace("title: Tiny", "name: Tiny"),
        graded=tiny.cell(tiny.GRADED_CODE, WITHOUT_POINTS),
    )
    with pytest.raises(MasterError) as refusal:
        master.read(tiny.make_course(tmp_path, cells))
    assert str(refusal.value).count("\n  - ") == 2


def test_sound_master(tmp_path):
    read = master.read(tiny.make_course(tmp_path))
    assert read.unit.folder == "00_tiny"
    assert [(item.id, item.points) for item in read.unit.exercises] == [("u00-tensor-bytes", 2.0)]
    card = next(cell for cell in read.notebook.cells if "Exercise" in cell.source)
    assert card.source.startswith("### Exercise 00.1 · Bytes\ndifficulty ●○○○○ ")
    assert "3 minutes · 2 points · core" in card.source
    assert "exercise" not in card.metadata


def test_ids_stay_when_a_cell_comes_before(tmp_path):
    before = master.read(tiny.make_course(tmp_path / "a"))
    cells = {"header": tiny.HEADER, "new": tiny.markdown("New.")} | tiny.parts()
    after = master.read(tiny.make_course(tmp_path / "b", cells))
    assert {cell.id for cell in before.notebook.cells} < {cell.id for cell in after.notebook.cells}


def test_equal_cells_get_different_ids(tmp_path):
    cells = tiny.parts() | {"one": tiny.markdown("Same."), "two": tiny.markdown("Same.")}
    read = master.read(tiny.make_course(tmp_path, cells))
    ids = [cell.id for cell in read.notebook.cells]
    assert len(set(ids)) == len(ids)
