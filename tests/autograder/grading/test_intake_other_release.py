"""A file of another release: the student's part is taken over, and nobody is blamed for more."""

import nbformat
import pytest

from autograder.cells import cell_key, is_solution
from autograder.grading.intake import merge
from tests.autograder.grading.handed_in import (
    ANSWERS,
    FRESH,
    answers_in,
    assert_is_the_release,
)
from tests.notebooks.filling import UNITS, filled, solved

UNIT, ANSWER = UNITS[0], "u00-tensor-bytes"
NEW = "u00-state-gib"
SETUP = "import itertools\nimport secrets\nfrom course_utils.preflight import check_of_old"
OWN = "list(range(3))"


def copy(notebook):
    return nbformat.from_dict(notebook)


def older():
    """Without an exercise; with a function, a text, a tag and an import that are gone since."""
    notebook = copy(FRESH)
    notebook.cells = [cell for cell in notebook.cells if not cell_key(cell).startswith(NEW)]
    given = [cell for cell in notebook.cells if cell.cell_type == "code" and not is_solution(cell)]
    given[1].source = f"{SETUP}\n\ndef of_old():\n    return secrets"
    given[1].metadata = {"tags": ["demonstration"]}
    notebook.cells.insert(5, nbformat.v4.new_markdown_cell("A text of old.", id="u00-old"))
    notebook.cells.insert(6, nbformat.v4.new_code_cell("of_old()", id="u00-old-code"))
    stub = next(cell for cell in notebook.cells if cell_key(cell) == "u00-step-seconds")
    stub.source = stub.source.replace("num_sequences", "sequences")
    return notebook


def handed_in(release, own=OWN):
    notebook = copy(release)
    for cell in notebook.cells:
        if cell_key(cell) in ANSWERS and cell_key(cell) != "u00-step-seconds":
            cell.source = ANSWERS[cell_key(cell)]
    place = next(n for n, cell in enumerate(notebook.cells) if cell_key(cell) == ANSWER)
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(own))
    return notebook


def merged_of(release, *others, own=OWN):
    return merge(nbformat.writes(handed_in(release, own)).encode(), FRESH, others)


def test_answers_and_own_cells_are_taken_and_nobody_is_blamed():
    merged = merged_of(older(), older())
    assert_is_the_release(merged.notebook)
    assert (merged.remarks, merged.needs_human) == ((), ())
    untouched = {NEW: "", "u00-step-seconds": ""}
    stubs = {cell_key(c): c.source for c in FRESH.cells if cell_key(c) in untouched}
    assert answers_in(merged.notebook) == ANSWERS | stubs
    cells = [cell.source for cell in merged.notebook.cells]
    assert cells[cells.index(ANSWERS[ANSWER]) + 1] == OWN
    assert len(cells) == len(FRESH.cells) + 1, "no cell of the older release is the student's"


def test_what_a_student_changed_is_said_whichever_release_it_was():
    content = handed_in(older())
    test = next(cell for cell in content.cells if cell_key(cell) == f"{ANSWER}-test")
    test.source = "1.0"
    merged = merge(nbformat.writes(content).encode(), FRESH, [older()])
    assert merged.remarks == (
        f"{ANSWER}-test: of another text in the file, and the course's again.",
    )


@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_of_the_newest_release_is_held_against_that(is_first):
    others = [older(), copy(FRESH)][:: 1 if is_first else -1]
    raw = nbformat.writes(filled(UNIT, solved(UNIT))).encode()
    merged = merge(raw, FRESH, others)
    assert merged.given is None
    assert answers_in(merged.notebook) == ANSWERS
