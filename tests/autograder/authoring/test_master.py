"""A broken master is told with every mistake in it; a sound one becomes a notebook."""

import pytest

from autograder.authoring import master
from autograder.authoring.errors import MasterError
from tests.autograder.authoring import tiny


def broken(**changes: str) -> dict[str, str]:
    return tiny.parts() | changes


SOLUTION = 'solution="u00-tensor-bytes"'
NO_BODY = "def tensor_bytes(shape, element_bytes):\n    return 24"
EMPTY_BODY = "def f():\n    ### BEGIN SOLUTION\n\n    ### END SOLUTION"
NO_END = "def f():\n    ### BEGIN SOLUTION\n    return 24"
NO_FUNCTION = "### BEGIN SOLUTION\nbytes = 24\n### END SOLUTION"
HIDDEN = "### BEGIN HIDDEN TESTS\n1\n### END HIDDEN TESTS"
BY_HAND = 'nbgrader={"grade_id": "u00-tensor-bytes", "solution": true}'

BROKEN = {
    "two solutions": (
        broken(again=tiny.parts()["solution"]),
        "`solution` names u00-tensor-bytes 2 times",
    ),
    "a card without points": (
        broken(card=tiny.markdown("**Write** it.", tiny.CARD.replace("points=2", ""), "Bytes")),
        "the card of u00-tensor-bytes lacks points",
    ),
    "a card that says too little": (
        broken(card=tiny.markdown("**Write** it.", 'exercise="u00-tensor-bytes" points=2')),
        "lacks title, difficulty, importance, minutes",
    ),
    "a solution without a body": (
        broken(solution=tiny.cell(NO_BODY, SOLUTION)),
        "u00-tensor-bytes: a solution needs a body",
    ),
    "a solution with an empty body": (
        broken(solution=tiny.cell(EMPTY_BODY, SOLUTION)),
        "u00-tensor-bytes: a solution needs a body",
    ),
    "a solution without an end": (
        broken(solution=tiny.cell(NO_END, SOLUTION)),
        "u00-tensor-bytes: every BEGIN SOLUTION needs an END SOLUTION",
    ),
    "a solution without a function": (
        broken(solution=tiny.cell(NO_FUNCTION, SOLUTION)),
        "u00-tensor-bytes: a solution defines a function or a class",
    ),
    "a solution in an ordinary cell": (
        broken(solution=tiny.cell(tiny.SOLUTION_CODE)),
        "a solution stands in a cell that is not marked as one",
    ),
    "a hidden test by hand": (
        broken(check=tiny.cell(HIDDEN, 'check="u00-tensor-bytes"')),
        "u00-tensor-bytes: nbgrader's metadata and hidden tests are written by the build",
    ),
    "nbgrader's metadata by hand": (
        broken(solution=tiny.cell(tiny.SOLUTION_CODE, BY_HAND)),
        "nbgrader's metadata and hidden tests are written by the build",
    ),
    "code in a check": (
        broken(check=tiny.cell("# Shapes.\nprint(1)", 'check="u00-tensor-bytes"')),
        "u00-tensor-bytes: a check needs comments that say what is verified, and nothing else",
    ),
    "a check without a comment": (
        broken(check=tiny.cell("", 'check="u00-tensor-bytes"')),
        "u00-tensor-bytes: a check needs comments that say what is verified, and nothing else",
    ),
    "a solution without a check": (
        broken(check=""),
        "u00-tensor-bytes needs a cell with `solution` and one with `check`, or one with "
        "`text_answer`; it has solution",
    ),
    "a check without a card": (
        broken(card=tiny.markdown("**Write** it.")),
        "u00-tensor-bytes has no card",
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
        solution=tiny.cell(NO_BODY, SOLUTION),
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
    assert card.metadata == {}


def test_marks_become_what_nbgrader_reads(tmp_path):
    cells = {cell.id: cell for cell in master.read(tiny.make_course(tmp_path)).notebook.cells}
    roles = {
        name: {role for role in ("grade", "solution", "locked") if cell.metadata.nbgrader[role]}
        for name, cell in cells.items()
        if "nbgrader" in cell.metadata
    }
    assert roles == {
        "u00-setup": {"locked"},
        "u00-tensor-bytes": {"solution"},
        "u00-tensor-bytes-test": {"grade", "locked"},
    }
    graded = cells["u00-tensor-bytes-test"]
    assert graded.metadata.nbgrader.points == 2
    assert graded.source == (
        "# Shapes of any kind.\n"
        'check("u00-tensor-bytes", tensor_bytes)\n'
        "### BEGIN HIDDEN TESTS\n"
        "from autograder import grade\n"
        "\n"
        'grade("u00-tensor-bytes", tensor_bytes)\n'
        "### END HIDDEN TESTS"
    )


def test_an_answer_in_words_is_read_by_a_person(tmp_path):
    card = tiny.markdown(
        "**Explain.**", 'exercise="u00-why" points=1 minutes=1 difficulty=1 importance=1', "Why"
    )
    words = "<!-- BEGIN SOLUTION -->\nBecause.\n<!-- END SOLUTION -->"
    cells = broken(why=card, words=tiny.markdown(words, 'text_answer="u00-why"'))
    read = master.read(tiny.make_course(tmp_path, cells))
    item = read.unit.exercises[-1]
    assert (item.id, item.manual, item.graded_cell) == ("u00-why", True, "u00-why")
    marks = next(cell for cell in read.notebook.cells if cell.id == "u00-why").metadata.nbgrader
    assert (marks.grade, marks.solution, marks.locked, marks.points) == (True, True, False, 1)


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
