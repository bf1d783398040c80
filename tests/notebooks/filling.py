"""Notebooks as students would hand them in: a release with given answers in its cells."""

import textwrap
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder import catalogue
from tests.answer_bank.every import ANSWER_BANKS

ROOT = Path(__file__).parents[2]
UNITS = [unit.folder for unit in catalogue.units()]


def released(unit: str) -> NotebookNode:
    return nbformat.read(ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)


def solved(unit: str) -> dict[str, str]:
    """The instructor's answers by the id of their cell."""
    path = ROOT / "solutions" / unit / f"{unit}.ipynb"
    return {
        cell.id: cell.source
        for cell in nbformat.read(path, as_version=4).cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def composite(unit: str, k: int) -> dict[str, str]:
    """The k-th wrong answer of every exercise of a unit that has more than k."""
    return {
        name: textwrap.dedent(bank.wrong[k].source).strip()
        for name, bank in answer_banks_of(unit).items()
        if k < len(bank.wrong)
    }


def expected_points(unit: str, k: int) -> dict[str, float]:
    """What each exercise keeps in the k-th composite."""
    return {
        name: bank.wrong[k].points
        for name, bank in answer_banks_of(unit).items()
        if k < len(bank.wrong)
    }


def answer_banks_of(unit: str):
    return {name: bank for name, bank in ANSWER_BANKS.items() if name[1:3] == unit[:2]}


def filled(unit: str, answers: Mapping[str, str]) -> NotebookNode:
    """The release of a unit with these answers."""
    notebook = deepcopy(released(unit))
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    return notebook
