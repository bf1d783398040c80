"""A guess is answered where the student sees it: `compare` gives a table that must be shown."""

import ast

import jupytext
import pytest

from tests.notebooks.filling import ROOT

MASTERS = {path.stem: path for path in sorted(ROOT.glob("solutions/*/*.py"))}


def calls_of(name, tree):
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name]


def lost_comparisons(source):
    """Calls of `compare` that are neither their cell's last expression nor handed to `display`."""
    tree = ast.parse(source)
    shown = [each for call in calls_of("display", tree) for each in call.args]
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        shown.append(tree.body[-1].value)
    return [ast.unparse(call) for call in calls_of("compare", tree) if call not in shown]


@pytest.mark.parametrize("name", MASTERS)
def test_every_guess_is_shown_beside_its_measurement(name):
    cells = jupytext.read(MASTERS[name], fmt="py:percent").cells
    lost = [each for c in cells if c.cell_type == "code" for each in lost_comparisons(c.source)]
    assert lost == []


def test_a_comparison_in_the_middle_of_a_cell_is_found():
    assert lost_comparisons("compare('a', measured=1)\nprint(2)") == ["compare('a', measured=1)"]
    assert lost_comparisons("display(compare('a', measured=1))\nprint(2)") == []
    assert lost_comparisons("print(2)\ncompare('a', measured=1)") == []
