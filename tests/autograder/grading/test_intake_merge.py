"""Any file becomes the release with the student's answers in it, or a person looks."""

import json
import random

import nbformat
import pytest
from nbgrader.utils import compute_checksum, determine_grade

from autograder.grading.intake import merge
from autograder.student_notebook import MAX_ADDED_CELLS, MAX_CHARACTERS
from tests.autograder.grading.handed_in import (
    ANSWERS,
    FRESH,
    OTHER,
    UNIT,
    answers_in,
    assert_is_the_release,
    beside,
    cell_of,
    packed,
    plain,
)
from tests.notebooks.filling import UNITS, filled, released, solved

TEST = "u00-tensor-bytes-test"
ANSWER = "u00-tensor-bytes"
GIVEN = beside(ANSWER, 1)


def merged_whole(raw, *remarks):
    """All answers were taken, with one remark for each of these words and no other."""
    merged = merge(raw, FRESH)
    assert_is_the_release(merged.notebook)
    assert answers_in(merged.notebook) == ANSWERS
    assert merged.needs_human == ()
    assert len(merged.remarks) == len(remarks), merged.remarks
    for words, remark in zip(remarks, merged.remarks, strict=True):
        assert words in remark
    return merged.notebook


def refused(raw, words):
    """Nothing was taken, and a person is told why."""
    merged = merge(raw, FRESH)
    assert merged.notebook == FRESH
    assert len(merged.needs_human) == 1
    assert words in merged.needs_human[0]


def changed(**more):
    return packed(plain() | more)


def with_cell(name, **more):
    content = plain()
    cell_of(content, name).update(more)
    return packed(content)


def with_grading(name, grading):
    content = plain()
    cell_of(content, name)["metadata"]["nbgrader"] = grading
    return packed(content)


@pytest.mark.parametrize("unit", UNITS)
def test_solved_notebook_needs_no_remark(unit):
    handed_in = filled(unit, solved(unit))
    merged = merge(nbformat.writes(handed_in).encode(), released(unit))
    assert merged.notebook == handed_in
    assert merged.remarks == merged.needs_human == ()


def test_blank_release_stays_blank():
    merged = merge(nbformat.writes(FRESH).encode(), FRESH)
    assert merged.notebook == FRESH
    assert merged.remarks == merged.needs_human == ()


# The file as a whole


NO_NOTEBOOKS = {
    "no file": (None, "There is no notebook to grade"),
    "empty": (b"", "no JSON (line 1"),
    "text": (b"this is no notebook", "no JSON (line 1"),
    "cut off": (packed(plain())[:5000], "no JSON"),
    "deep lists": (b"[" * 200_000, "nested too deeply"),
    "deep tables": (b'{"a":' * 200_000, "nested too deeply"),
    "a crowd of lists": (b"[" + b"[]," * 10_000_000 + b"0]", "more than 15,000,000 brackets"),
    "a crowd of cells": (b'{"cells":[' + b"{}," * 100_000 + b"0]}", "it has 100,001 cells"),
    "a list": (b"[1, 2]", "a JSON list"),
    "a number": (b"NaN", "a JSON float"),
    "two bytes of UTF-16": (b"\xff\xfe\x00", "no JSON"),
    "binary": (bytes(range(256)) * 10, "no JSON"),
    "no cells": (b"{}", "no list of cells"),
    "null cells": (changed(cells=None), "no list of cells"),
    "cells by name": (changed(cells={"0": {}}), "no list of cells"),
    "empty cells": (changed(cells=[]), "None of the 0 cells"),
    "cells that are none": (changed(cells=[1, None, "x", []]), "None of the 0 cells"),
    "of an old format": (b'{"worksheets": [], "nbformat": 3}', "no list of cells"),
}


@pytest.mark.parametrize("name", NO_NOTEBOOKS)
def test_what_is_no_notebook_is_left_to_a_person(name):
    refused(*NO_NOTEBOOKS[name])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_every_unicode_is_read(encoding):
    text = nbformat.writes(filled(UNIT, ANSWERS))
    merged_whole(text.encode(encoding))


def test_latin_1_is_read_and_told():
    content = plain()
    cell_of(content, "u00-view")["source"] = "Größe"
    text = json.dumps({"cells": content["cells"]}, ensure_ascii=False)
    raw = text.encode("latin-1", "replace")
    merged = merge(raw, FRESH)
    assert answers_in(merged.notebook) == ANSWERS | {"u00-view": "Größe"}
    assert "read as Latin-1" in merged.remarks[0]


WIDGETS = "application/vnd.jupyter.widget-state+json"
MARKS_OF_THE_FILE = {
    "later version": {"nbformat": 4, "nbformat_minor": 99},
    "unknown format": {"nbformat": 99},
    "no number": {"nbformat": "four", "nbformat_minor": None},
    "list": {"metadata": ["a", "list"]},
    "kernel": {"metadata": {"kernelspec": {"name": "evil", "argv": ["sh"]}}},
    "widgets": {"metadata": {"widgets": {WIDGETS: {"version_major": 2, "state": {"a": {}}}}}},
    "broken widgets": {"metadata": {"widgets": {WIDGETS: 7}}},
}


@pytest.mark.parametrize("name", MARKS_OF_THE_FILE)
def test_marks_of_the_file_do_not_count(name):
    merged_whole(changed(**MARKS_OF_THE_FILE[name]))


def test_numbers_that_are_none_and_doubled_keys_do_no_harm():
    text = packed(plain()).decode()
    odd = f'{{"x": NaN, "y": -Infinity, "z": {"9" * 100_000}, "cells": 3, {text[1:]}'
    merged_whole(odd.encode())


def test_notebook_without_ids_is_known_by_its_marks_and_texts():
    content = plain() | {"nbformat_minor": 4}
    for cell in content["cells"]:
        del cell["id"]
    assert len(merged_whole(packed(content)).cells) == len(FRESH.cells)


def test_cells_need_no_outputs_and_no_metadata_of_their_own():
    content = plain()
    for cell in content["cells"]:
        cell.pop("outputs", None)
        if not cell["metadata"]:
            del cell["metadata"]
    merged_whole(packed(content))


def test_stored_outputs_are_dropped():
    content = plain()
    outputs = [{"output_type": "stream", "name": "stdout", "text": "x" * 1000}] * 20_000
    cell_of(content, TEST).update(outputs=outputs, execution_count=10**30)
    merged_whole(packed(content))


# Cells


CHANGED_CELLS = {
    "no outputs": (ANSWER, {"outputs": None}, ()),
    "a list as metadata": (ANSWER, {"metadata": []}, ()),
    "no metadata": (ANSWER, {"metadata": None}, ()),
    "a word as count": (ANSWER, {"execution_count": "x"}, ()),
    "a picture": ("u00-view", {"attachments": {"a.png": {}}}, ["u00-view: pictures were pasted"]),
    "a test as text": (TEST, {"cell_type": "markdown"}, [f"{TEST}: of another type"]),
    "an answer as text": (ANSWER, {"cell_type": "markdown"}, [f"{ANSWER}: of another type"]),
}


@pytest.mark.parametrize("name", CHANGED_CELLS)
def test_a_changed_cell_comes_back_and_is_told_where_that_matters(name):
    cell, more, remarks = CHANGED_CELLS[name]
    merged_whole(with_cell(cell, **more), *remarks)


@pytest.mark.parametrize(
    "grading",
    [[], "text", 3, {}, {"grade_id": ["x"]}, {"grade_id": {}}, {"grade_id": None}],
    ids=str,
)
def test_grading_marks_of_wrong_types_do_not_count(grading):
    merged_whole(with_grading(ANSWER, grading))
    merged_whole(with_grading(TEST, grading))


@pytest.mark.parametrize("version", [1, 99, None, "three"])
def test_schema_version_does_not_count(version):
    content = plain()
    for cell in content["cells"]:
        cell["metadata"].get("nbgrader", {})["schema_version"] = version
    merged_whole(packed(content))


def test_source_may_be_a_list_of_lines_and_end_them_as_windows_does():
    content = plain()
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n").splitlines(keepends=True)
    merged_whole(packed(content))


@pytest.mark.parametrize("source", [None, 7, {"a": 1}, ["a", 1]])
def test_answer_that_is_no_text_is_left_to_a_person(source):
    merged = merge(with_cell(ANSWER, source=source), FRESH)
    assert_is_the_release(merged.notebook)
    assert merged.needs_human == (f"The answer to {ANSWER} is no text; it was not taken.",)
    assert answers_in(merged.notebook)[ANSWER] == answers_in(FRESH)[ANSWER]


def test_cell_without_source_is_empty():
    content = plain()
    del cell_of(content, ANSWER)["source"]
    assert answers_in(merge(packed(content), FRESH).notebook)[ANSWER] == ""


BLANK = {"empty": "", "blank": " \n\n", "the stub again": answers_in(FRESH)["u00-view"] + "\n"}


@pytest.mark.parametrize("name", BLANK)
def test_a_text_that_was_emptied_was_never_written(name):
    merged = merge(with_cell("u00-view", source=BLANK[name]), FRESH)
    assert answers_in(merged.notebook) == ANSWERS | {"u00-view": answers_in(FRESH)["u00-view"]}
    assert merged.remarks == merged.needs_human == ()
    cell = cell_of(merged.notebook, "u00-view")
    assert determine_grade(cell) == (0, 1.0), "points by itself, and nobody is asked"


def test_a_written_copy_counts_before_an_emptied_text():
    content = plain()
    emptied = dict(cell_of(content, "u00-view")) | {"source": ""}
    content["cells"].insert(content["cells"].index(cell_of(content, "u00-view")), emptied)
    assert answers_in(merge(packed(content), FRESH).notebook) == ANSWERS


def test_halves_of_characters_are_replaced_and_whole_ones_kept():
    content = plain()
    cell_of(content, "u00-view")["source"] = "a\ud800b 😀"
    written = answers_in(merge(packed(content), FRESH).notebook)["u00-view"]
    assert written == "a\ufffdb 😀"


def test_answer_of_megabytes_is_left_to_a_person():
    long = "#" * (MAX_CHARACTERS + 1)
    merged = merge(with_cell(ANSWER, source=long), FRESH)
    assert_is_the_release(merged.notebook)
    assert f"The answer to {ANSWER} is 200,001 characters long" in merged.needs_human[0]
    assert merged.remarks == ()


def test_many_and_long_added_cells_are_cut():
    content = plain()
    texts = ["#" * 10**6, *(f"own({number})" for number in range(10_000))]
    own = [{"cell_type": "code", "source": text, "metadata": {}} for text in texts]
    content["cells"][5:5] = own
    notebook = merged_whole(
        packed(content),
        f"Of 10001 added cells the first {MAX_ADDED_CELLS} were taken",
        "Left out of the added cells, as no text or longer than 200,000 characters: 1.",
    )
    sources = [cell.source for cell in notebook.cells[5 : 5 + MAX_ADDED_CELLS - 1]]
    assert sources == texts[1:MAX_ADDED_CELLS]
    assert len(notebook.cells) == len(FRESH.cells) + MAX_ADDED_CELLS - 1


def test_added_cells_bring_nothing_but_their_text():
    content = plain()
    own = {
        "cell_type": "markdown",
        "id": "x" * 500,
        "source": "mine",
        "metadata": {"tags": ["skip-execution"], "nbgrader": {"grade_id": "new", "grade": True}},
        "attachments": {"picture.png": {"image/png": "AAAA"}},
    }
    content["cells"].insert(3, own)
    cell = merged_whole(packed(content)).cells[3]
    assert (cell.cell_type, cell.source, cell.metadata) == ("markdown", "mine", {})
    assert "attachments" not in cell


def test_cell_of_unknown_type_does_not_run():
    content = plain()
    content["cells"].insert(2, {"cell_type": ["code"], "source": "evil()"})
    assert merged_whole(packed(content)).cells[2].cell_type == "raw"


# What could earn marks in nbgrader


@pytest.mark.parametrize("tag", ["skip-execution", "demonstration", "remove-cell"])
def test_tags_have_no_effect(tag):
    content = plain()
    cell_of(content, TEST)["metadata"]["tags"] = [tag, 3, {}]
    merged_whole(packed(content), f"{TEST}: tags were added, without effect")


@pytest.mark.parametrize(
    "marks",
    [
        {"solution": False},
        {"solution": False, "locked": False},
        {"grade": False},
        {"points": 1000},
        {"points": "many"},
        {"points": 10**400},
        {"task": True},
    ],
    ids=str,
)
def test_marks_of_grading_have_no_effect(marks):
    grading = cell_of(plain(), "u00-view")["metadata"]["nbgrader"] | marks
    merged_whole(with_grading("u00-view", grading), "u00-view: points or other marks of grading")


def test_test_marked_as_solution_is_no_solution():
    grading = cell_of(plain(), TEST)["metadata"]["nbgrader"] | {"solution": True, "locked": False}
    content = json.loads(with_grading(TEST, grading))
    cell_of(content, TEST)["source"] = "2.0"
    merged_whole(packed(content), f"{TEST}: of another text", f"{TEST}: points or other")


def test_an_older_release_with_other_points_and_checks_blames_nobody():
    """The instructor changed them after the release; nbgrader's sums say that no student did."""
    content = filled(UNIT, solved(UNIT))
    for cell in content.cells:
        marks = cell.metadata.get("nbgrader", {})
        if marks.get("grade"):
            marks["points"] += 1
        if marks.get("grade") and marks["locked"]:
            cell.source = "# Of an older release.\n" + cell.source
        if marks:
            stub = cell if marks["locked"] else cell_of(FRESH, marks["grade_id"])
            older = nbformat.from_dict({**stub, "metadata": cell.metadata})
            marks["checksum"] = compute_checksum(older)
    merged_whole(nbformat.writes(content).encode())


def test_a_note_with_the_name_of_an_answer_does_not_take_its_place():
    content = plain()
    text = cell_of(content, ANSWER) | {"cell_type": "markdown", "source": "a note", "id": "n"}
    content["cells"].insert(3, text)
    note = merged_whole(packed(content), f"2 cells have the name {ANSWER}").cells[3]
    assert (note.cell_type, note.source) == ("markdown", "a note")


def test_a_function_in_a_given_cell_is_kept_beside_it():
    content = plain()
    cell_of(content, GIVEN)["source"] = "def f():\n    return 1"
    cells = [cell.source for cell in merged_whole(packed(content)).cells]
    place = cells.index("def f():\n    return 1")
    assert cells[place - 1 : place + 2 : 2] == [ANSWERS[ANSWER], cell_of(FRESH, GIVEN).source]


def test_deleted_cells_come_back():
    content = plain()
    content["cells"] = [cell for cell in content["cells"] if not cell["id"].endswith("-test")]
    merged_whole(packed(content), f"Missing and put back as the course made them: {TEST}, ")


def test_changed_locked_cells_come_back():
    content = plain()
    cell_of(content, TEST)["source"] = "2.0"
    cell_of(content, "u00-setup")["source"] = "import os"
    names = f"u00-setup, {TEST}"
    merged_whole(packed(content), f"{names}: of another text in the file, and the course's again")


def test_last_copy_that_defines_the_function_counts_and_the_others_run_before():
    content = plain()
    place = content["cells"].index(cell_of(content, ANSWER))
    wrong = "def tensor_bytes(shape, element_bytes):\n    return 0"
    first = cell_of(content, ANSWER) | {"id": "first", "source": wrong}
    content["cells"].insert(place, first)
    piece = cell_of(content, ANSWER) | {"id": "piece", "source": "print(tensor_bytes((2,), 1))"}
    content["cells"].insert(place + 2, piece)
    cells = merged_whole(packed(content), f"3 cells have the name {ANSWER}; the last").cells
    own = [cells[place], cells[place + 2]]
    assert [(cell.cell_type, cell.source) for cell in own] == [
        ("code", wrong),
        ("code", piece["source"]),
    ]


def test_stub_does_not_count_before_or_behind_a_written_copy():
    for place in (2, 30):
        content = plain()
        stub = cell_of(content, ANSWER) | {"source": answers_in(FRESH)[ANSWER], "id": "other"}
        content["cells"].insert(place, stub)
        cells = merged_whole(packed(content), f"2 cells have the name {ANSWER}").cells
        assert len(cells) == len(FRESH.cells)


@pytest.mark.parametrize("source", [None, "#" * (MAX_CHARACTERS + 1)], ids=["none", "long"])
def test_copy_that_is_text_counts_where_the_first_is_none(source):
    content = plain()
    content["cells"].insert(2, cell_of(content, ANSWER) | {"source": source, "id": "other"})
    merged = merge(packed(content), FRESH)
    assert answers_in(merged.notebook) == ANSWERS
    assert merged.needs_human == ()


def test_copied_test_counts_once():
    content = plain()
    content["cells"] += [cell_of(content, TEST)] * 2
    merged_whole(packed(content), f"3 cells have the name {TEST}; the first counts")


# Whose cell is it?


@pytest.mark.parametrize("everywhere", [True, False])
def test_exchanged_names_are_set_right_by_the_functions(everywhere):
    content, other = plain(), "u00-state-gib"
    first, second = cell_of(content, ANSWER), cell_of(content, other)
    first["metadata"]["nbgrader"]["grade_id"], second["metadata"]["nbgrader"]["grade_id"] = (
        other,
        ANSWER,
    )
    if everywhere:
        first["id"], second["id"] = other, ANSWER
        names = f"{ANSWER}, {other}"
        merged_whole(
            packed(content), f"in other cells than those with their names: answers to {names}"
        )
    else:
        merged_whole(packed(content))


def test_answer_that_lost_its_name_is_known_by_its_function():
    content = plain()
    cell_of(content, ANSWER).update(metadata={}, id="random")
    merged_whole(
        packed(content), f"Found in other cells than those with their names: answers to {ANSWER}"
    )


def test_trial_of_a_function_is_no_answer_to_it():
    content = plain()
    content["cells"].insert(2, {"cell_type": "code", "source": "def tensor_bytes():\n    return 0"})
    assert merged_whole(packed(content)).cells[2].cell_type == "code"


def test_notebook_of_another_unit_is_named():
    refused(packed(plain(OTHER)), "seems to be of unit 01 (")


def test_notebook_of_no_unit_is_refused():
    own = [{"cell_type": "code", "source": "print(1)", "id": "a", "metadata": {}}]
    refused(changed(cells=own), "None of the 1 cells of the file is an exercise of this unit")


def test_nothing_that_is_given_is_changed():
    before = json.dumps(FRESH)
    merge(with_cell(ANSWER, source="mine"), FRESH)
    assert json.dumps(FRESH) == before


# Any damage


def delete(content, chance):
    del content["cells"][chance.randrange(len(content["cells"]))]


def duplicate(content, chance):
    cell = json.loads(json.dumps(chance.choice(content["cells"])))
    content["cells"].insert(chance.randrange(len(content["cells"])), cell)


def retag(content, chance):
    meta = chance.choice(content["cells"]).setdefault("metadata", {})
    if isinstance(meta, dict):
        meta["tags"] = chance.choice([["skip-execution"], ["demonstration"], "x", 3, [None]])


def retype(content, chance):
    kinds = ["code", "markdown", "raw", "heading", None, 4, []]
    chance.choice(content["cells"])["cell_type"] = chance.choice(kinds)


def shuffle(content, chance):
    chance.shuffle(content["cells"])


def rewrite(content, chance):
    sources = ["", "x = 1\n", ["a\n", "b"], None, 3, [1], "\ud800", "\0", "def state_gib(): 0"]
    chance.choice(content["cells"])["source"] = chance.choice(sources)


def regrade(content, chance):
    cell, other = (chance.choice(content["cells"]) for _ in range(2))
    meta = cell.get("metadata")
    if isinstance(meta, dict):
        names = [other.get("id"), "u00-none", 3, None, []]
        marks = {"grade_id": chance.choice(names), "solution": chance.choice([True, False, 1])}
        meta["nbgrader"] = chance.choice([marks, marks | {"points": -1}, [], "x", None])


def rename(content, chance):
    cell, other = (chance.choice(content["cells"]) for _ in range(2))
    cell["id"] = chance.choice([other.get("id"), "x" * 100, "", 3, None, "a b"])


def replace_metadata(content, chance):
    target = chance.choice([content, chance.choice(content["cells"])])
    target["metadata"] = chance.choice([[], None, {}, {"kernelspec": 3}, "x"])


def insert_odd(content, chance):
    odd = [{}, {"cell_type": "code"}, {"source": "mine", "id": "u00-setup"}]
    content["cells"].insert(chance.randrange(len(content["cells"])), chance.choice(odd))


DAMAGES = [
    *(delete, duplicate, retag, retype, shuffle, rewrite),
    *(regrade, rename, replace_metadata, insert_odd),
]


def damaged(seed):
    """A solved notebook with up to a dozen damages, every fourth with flipped bytes too."""
    chance, content = random.Random(seed), plain()
    for _ in range(chance.randint(1, 12)):
        chance.choice(DAMAGES)(content, chance)
    raw = bytearray(packed(content))
    for _ in range(chance.randint(1, 3) if seed % 4 == 0 else 0):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(raw)


@pytest.mark.parametrize("seed", range(400))
def test_any_damage_gives_the_release(seed):
    raw = damaged(seed)
    merged = merge(raw, FRESH)
    assert_is_the_release(merged.notebook)
    assert merged == merge(raw, FRESH)
    "".join([*merged.remarks, *merged.needs_human]).encode()  # printable, whatever was written
    if seed % 4:
        assert all("The answer to" in reason for reason in merged.needs_human)
