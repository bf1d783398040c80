"""Notebooks on a hub name no command that is not there."""

import json
import re

import pytest

from autograder.hub import words
from tests.notebooks.filling import ROOT, UNITS

COMMAND = re.compile(r"`make [a-z]|UNIT=|CELL=|hand_in")


def text_of(unit):
    return (ROOT / "notebooks" / unit / f"{unit}.ipynb").read_text("utf-8")


@pytest.mark.parametrize("unit", UNITS)
def test_no_command_of_a_laptop_is_left(unit):
    assert COMMAND.findall(words.on_hub(text_of(unit))) == []


@pytest.mark.parametrize("sentence", words.WORDS, ids=lambda sentence: sentence[:25])
def test_each_sentence_is_in_one_notebook_once(sentence):
    counts = [text_of(unit).count(words._in_file(sentence)) for unit in UNITS]
    assert sum(counts) == 1, "the text master has changed: change `words.py` with it"


@pytest.mark.parametrize("unit", UNITS)
def test_nothing_but_the_sentences_changes_and_a_second_time_nothing(unit):
    before, after = text_of(unit), words.on_hub(text_of(unit))
    assert words.on_hub(after) == after
    cells = [json.loads(text)["cells"] for text in (before, after)]
    changed = [one for one, other in zip(*cells, strict=True) if one != other]
    assert len(changed) == {"00": 1}.get(unit[:2], 0)
    assert {cell["cell_type"] for cell in changed} <= {"markdown"}
