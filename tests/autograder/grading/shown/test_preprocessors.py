"""What nbgrader's pages show beside the answers; no model answer is in feedback."""

import html
import re

import nbformat
import pytest
from traitlets.config.loader import PyFileConfigLoader

from autograder import catalogue
from autograder.grading.shown.preprocessors import ModelAnswers
from tests.autograder.grading.course_folder import Course
from tests.needs import SANDBOX, needs
from tests.notebooks.filling import (
    ROOT,
    UNITS,
    answer_banks_of,
    composite,
    expected_points,
    released,
    solved,
)

UNIT = UNITS[0]
WITH_TEXTS = [
    unit.folder for unit in catalogue.units() if any(each.manual for each in unit.exercises)
]
MODEL = "half for the copy that lets the rest be freed"


def model_answers():
    return ModelAnswers(
        config=PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    )


@pytest.mark.parametrize("unit", WITH_TEXTS)
def test_a_model_answer_follows_each_text_in_formgrader_alone(unit, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    about = {"notebook_id": unit, "submission_id": "1"}
    shown, _ = model_answers().preprocess(released(unit), about)
    added = [cell.source for cell in shown.cells if "Model answer" in cell.source]
    texts = [text for text in solved(unit).values() if text.startswith("<!--")]
    assert len(added) == len(texts) > 0
    assert all(text in cell for text, cell in zip(texts, added, strict=True))
    feedback, _ = model_answers().preprocess(released(unit), {"nbgrader": {"notebook": unit}})
    assert len(feedback.cells) == len(released(unit).cells)


def test_without_solved_notebooks_there_is_no_model_answer(tmp_path):
    step = model_answers()
    step.config.CourseDirectory.root = str(tmp_path)
    shown, _ = step.preprocess(released(UNIT), {"notebook_id": UNIT, "submission_id": "1"})
    assert len(shown.cells) == len(released(UNIT).cells)


@needs(SANDBOX)
def test_feedback_is_points_and_hints_and_then_only_the_students_cells(tmp_path):
    made = Course(tmp_path)
    made.run("generate_assignment", UNIT)
    made.hand_in("ada", UNIT, solved(UNIT) | composite(UNIT, 0) | {"u00-view": "A view."})
    path = made.folder / "submitted" / "ada" / UNIT / f"{UNIT}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(6, nbformat.v4.new_code_cell("print('of my own')"))
    nbformat.write(notebook, path)
    made.run("autograde", UNIT)
    made.run("generate_feedback", UNIT)
    page = (made.folder / "feedback" / "ada" / UNIT / f"{UNIT}.html").read_text(encoding="utf-8")
    assert '<a href="#u00-state-gib-test">What a paper prints and what torch prints</a>' in page
    assert 'name="u00-state-gib-test"' in page
    assert f"<td>{expected_points(UNIT, 0)['u00-four-memories']:g} of 2</td>" in page
    assert "<td>a person has yet to read it</td>" in page
    table, rest = page[page.index("what went wrong") :].split("</table>", 1)
    hint = answer_banks_of(UNIT)["u00-four-memories"].wrong[0].hint
    assert html.escape(hint, quote=False).replace("`", "") in re.sub("</?code>", "", table)
    assert "of my own" in rest
    assert "What a paper prints and what torch prints</h3>" in rest
    for given in ("A tour in two minutes", "Every exercise has a", "Explorer: run this cell"):
        assert given not in page, given
    assert "#toc, .prompt { display: none }" in page
    assert MODEL in solved(UNIT)["u00-view"]
    assert MODEL not in page
