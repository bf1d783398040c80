"""Notebooks as students would hand them in: a release with given answers in its cells."""

import textwrap
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder import catalogue
from autograder.checking.lookup import check_of
from autograder.exercises.model_answers import ChangedAnswer, model_source
from tests.answer_bank import Wrong
from tests.answer_bank.every import ANSWER_BANKS

ROOT = Path(__file__).parents[2]
UNITS = [unit.folder for unit in catalogue.units()]
WITH_EXERCISES = [unit.folder for unit in catalogue.units() if unit.exercises]


def released(unit: str) -> NotebookNode:
    return nbformat.read(ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)


@cache
def solved(unit: str) -> dict[str, str]:
    """The instructor's answers by the id of their cell."""
    path = ROOT / "solutions" / unit / f"{unit}.ipynb"
    return {
        cell.id: cell.source
        for cell in nbformat.read(path, as_version=4).cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def wrong_answers(exercise: str) -> list[Wrong]:
    """Those of the answer bank, and the edits of the model answer that are known mistakes."""
    unit = next(each for each in UNITS if each[:2] == exercise[1:3])
    cell, model = solved(unit)[exercise], model_source(exercise)
    edits = [
        each
        for each in check_of(exercise).judge.mistakes
        if isinstance(each, ChangedAnswer) and not each.is_generated
    ]
    return [
        *ANSWER_BANKS[exercise].wrong,
        *(
            Wrong(each.hint, cell.replace(model, each.source), each.hint, each.points)
            for each in edits
        ),
    ]


def composite(unit: str, k: int) -> dict[str, str]:
    """The k-th wrong answer of every exercise of a unit that has more than k."""
    return {name: clean(wrong.source) for name, wrong in _kth(unit, k).items()}


def expected_points(unit: str, k: int) -> dict[str, float]:
    """What each exercise keeps in the k-th composite."""
    return {name: wrong.points for name, wrong in _kth(unit, k).items()}


def num_composites(unit: str) -> int:
    """How many composites have a wrong answer at all."""
    return max(len(wrong_answers(name)) for name in answer_banks_of(unit))


def _kth(unit: str, k: int) -> dict[str, Wrong]:
    every = {name: wrong_answers(name) for name in answer_banks_of(unit)}
    return {name: wrong[k] for name, wrong in every.items() if k < len(wrong)}


def clean(source: str) -> str:
    return textwrap.dedent(source).strip()


def answer_banks_of(unit: str):
    return {name: bank for name, bank in ANSWER_BANKS.items() if name[1:3] == unit[:2]}


def filled(unit: str, answers: Mapping[str, str]) -> NotebookNode:
    """The release of a unit with these answers."""
    notebook = deepcopy(released(unit))
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    return notebook
