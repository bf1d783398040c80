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
    "folded code without a comment": (
        broken(count=tiny.cell("2 + 3", "folded=true")),
        "folded code begins with a comment, which is all that is seen of it",
    ),
    "an opening without goals": (
        broken(title=tiny.markdown("What fits?", "opening=true")),
        "an opening ends with a numbered list of what one can do afterwards",
    ),
    "a picture that is not there": (
        broken(title=tiny.markdown("![Bars](hero.svg)")),
        "the picture hero.svg is not in solutions/00_tiny",
    ),
    "a card that closes its box": (
        broken(card=tiny.markdown("</div>", tiny.CARD, title="Bytes")),
        "a card's text may not close the box that the build puts around it",
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
    card = next(cell for cell in read.notebook.cells if "YOUR TURN" in cell.source)
    assert "\n\n### 00.1 · Bytes\n\n**Write** it.\n\n</div>" in card.source
    assert "<strong>2 points</strong></span><span>3 min</span>" in card.source
    assert "difficulty ●○○○○" in card.source
    assert card.metadata == {}


def test_extras_are_told_from_the_core(tmp_path):
    cells = broken(card=tiny.markdown("**Write** it.", f"{tiny.CARD} extra=true", title="Bytes"))
    read = master.read(tiny.make_course(tmp_path, cells))
    card = next(cell for cell in read.notebook.cells if "00.1 · Bytes" in cell.source)
    assert "EXTRA</span>" in card.source and "YOUR TURN" not in card.source


def test_an_opening_says_minutes_and_folds_goals_and_slides(tmp_path):
    header = tiny.HEADER.replace(
        "lecture: [S3]", 'lecture: [S3, S4, E1]\n#     needs: ["00", "02"]'
    )
    text = "![Bars](hero.svg)\n\nWill it fit?\n\n1. **Say** what fits.\n2. **Measure** it."
    cells = broken(header=header, title=tiny.markdown(text, "opening=true"))
    path = tiny.make_course(tmp_path, cells)
    (path.parent / "hero.svg").write_text("<svg/>")
    opening = master.read(path).notebook.cells[0].source
    picture, promise, facts, summary, *folded = opening.split("\n\n")[1:]
    assert picture == '<img alt="Bars" width="980" src="data:image/svg+xml;base64,PHN2Zy8+">'
    assert promise == "Will it fit?"
    assert facts == "**1 minutes** · runs on a CPU · after units 00 and 02"
    assert summary.startswith("<details><summary>")
    assert folded == [
        "1. **Say** what fits.\n2. **Measure** it.",
        "Lecture E, *Efficient LLMs*: E1",
        "Lecture S, *Scaling LLM Training, Part I*: S3, S4",
        "</details>",
    ]


def test_setup_and_folded_code_show_one_line(tmp_path):
    cells = broken(count=tiny.cell("# A table of sizes\n2 + 3", "folded=true"))
    notebook = master.read(tiny.make_course(tmp_path, cells)).notebook
    folded = [cell for cell in notebook.cells if cell.metadata.get("jupyter")]
    assert [cell.source.split("\n")[0] for cell in folded] == [
        "# Setup: run this cell first.",
        "# A table of sizes",
    ]
    assert all(cell.metadata.jupyter == {"source_hidden": True} for cell in folded)


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
