"""Grading skips cells tagged as demonstrations, so no other cell may need their names."""

import ast

import pytest

from tests.notebooks.filling import UNITS, released

TAG = "demonstration"


def is_demonstration(cell):
    return TAG in cell.metadata.get("tags", [])


def names(source, context):
    """The names that some source reads or defines."""
    nodes = list(ast.walk(ast.parse(source)))
    found = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, context)}
    if context is ast.Store:
        found |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        found |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    return found


def needed_of_demonstrations(cells):
    """Names that only demonstrations define and other cells read."""
    defined = {True: set(), False: set()}
    read = set()
    for cell in (each for each in cells if each.cell_type == "code"):
        defined[is_demonstration(cell)] |= names(cell.source, ast.Store)
        if not is_demonstration(cell):
            read |= names(cell.source, ast.Load)
    return (defined[True] - defined[False]) & read


@pytest.mark.parametrize("unit", UNITS)
def test_no_other_cell_needs_a_demonstration(unit):
    assert needed_of_demonstrations(released(unit).cells) == set()


@pytest.mark.parametrize("unit", UNITS)
def test_demonstrations_are_neither_answers_nor_checks(unit):
    for cell in filter(is_demonstration, released(unit).cells):
        assert "nbgrader" not in cell.metadata, cell.id
