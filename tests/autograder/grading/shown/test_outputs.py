"""Only text and pictures from a sandbox are shown, and nbgrader can read a verdict's points."""

import base64

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.utils import determine_grade

from autograder.checking.verdict import Verdict
from autograder.grading.sandbox.ipython_shell import MAX_CHARACTERS, MAX_OUTPUTS
from autograder.grading.shown.outputs import of_stopped_cell, of_verdict, sanitized, told_by

SIGNED = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def picture(width: int, height: int) -> str:
    """The beginning of a PNG picture of a size in pixels."""
    return base64.b64encode(SIGNED + width.to_bytes(4) + height.to_bytes(4)).decode()


PNG = picture(640, 480)
TEXT = {"output_type": "stream", "name": "stdout", "text": "hello"}


def test_a_verdict_tells_a_student_what_went_wrong():
    about = {"exercise": "u00-tensor-bytes", "max_points": 2.0, "sentence": "3 cases are wrong."}
    wrong, right = (Verdict(**about, points=points, hint="Why?") for points in (1.0, 2.0))
    assert told_by(new_code_cell(outputs=of_verdict(wrong))) == "3 cases are wrong. Why?"
    assert told_by(new_code_cell(outputs=of_verdict(right))) == ""
    forged = TEXT | {"metadata": {"verdict": ["forged"]}}
    assert told_by(new_code_cell(outputs=sanitized([forged]))) == ""


def test_text_pictures_and_errors_are_shown():
    error = {"output_type": "error", "ename": "E", "evalue": "why", "traceback": ["line"]}
    shown = {"output_type": "display_data", "data": {"text/plain": "x", "image/png": PNG}}
    outputs = sanitized([TEXT, error, shown])
    assert [each.output_type for each in outputs] == ["stream", "error", "display_data"]
    assert outputs[2].data == shown["data"]
    nbformat.validate(new_notebook(cells=[new_code_cell("", outputs=outputs)]))


@pytest.mark.parametrize(
    "entry",
    [
        None,
        3,
        "text",
        {},
        {"output_type": "stream", "name": "stdin", "text": "x"},
        {"output_type": "stream", "name": "stdout", "text": ["x"]},
        {"output_type": "error", "ename": 1, "evalue": "", "traceback": []},
        {"output_type": "display_data", "data": {"text/html": "<script>alert(1)</script>"}},
        {"output_type": "display_data", "data": {"application/javascript": "alert(1)"}},
        {"output_type": "display_data", "data": {"image/png": "no base64!"}},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(b"GIF").decode()}},
        {"output_type": "update_display_data", "data": {"text/plain": "x"}},
    ],
)
def test_everything_else_is_dropped(entry):
    assert sanitized([entry, TEXT]) == sanitized([TEXT])


@pytest.mark.parametrize("outputs", [None, "x", {"0": TEXT}, 7])
def test_what_is_no_list_is_nothing(outputs):
    assert sanitized(outputs) == []


def test_a_flood_is_cut():
    flood = [TEXT | {"text": "x" * 10**6}] * (2 * MAX_OUTPUTS)
    outputs = sanitized(flood)
    assert len(outputs) == MAX_OUTPUTS
    assert max(len(each.text) for each in outputs) <= 2 * MAX_CHARACTERS


def test_a_result_of_a_student_is_never_taken_for_points():
    result = {"output_type": "execute_result", "data": {"text/plain": "1000.0"}}
    assert [each.output_type for each in sanitized([result])] == ["display_data"]


@pytest.mark.parametrize("points", [0.0, 0.25, 1.0, 2.5])
def test_nbgrader_reads_the_points_of_a_verdict(points):
    verdict = Verdict(exercise="u00-x", points=points, max_points=2.5, sentence="So.")
    cell = new_code_cell("check", outputs=of_verdict(verdict))
    cell.metadata["nbgrader"] = {"grade": True, "solution": False, "points": 2.5}
    assert determine_grade(cell) == (points, 2.5)
    (output,) = cell.outputs
    assert output.data == {"text/plain": repr(points), "text/html": verdict._repr_html_()}


def test_a_stopped_cell_says_why():
    (output,) = of_stopped_cell("its process ended")
    assert output.text == "This cell was stopped: its process ended.\n"


@pytest.mark.parametrize("size", [(60_000, 10), (10, 60_000), (2**32 - 1, 2**32 - 1)])
def test_a_picture_too_large_for_a_browser_is_left_out(size):
    shown = {"output_type": "display_data", "data": {"image/png": picture(*size)}}
    assert sanitized([shown]) == []
