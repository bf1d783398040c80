"""Of a student's notebook runs what a function reads, and nothing else."""

import json

import pytest

from course_utils.torchrun.own_functions import functions_of

CELLS = [
    "from math import sqrt\nimport no_such_module_of_plots as plots",
    "%matplotlib inline",
    "raise RuntimeError('a cell that measures')",
    "SCALE, unused = 3, 1 / 0",
    "SCALE = 3",
    "def helper(x):\n    return SCALE * sqrt(x)",
    "class Layer:\n    def backward(self):\n        return helper(4)",
    "def answer(x):\n    local = helper(x)\n    return [local for _ in range(2)]",
    "def unwritten(x):\n    raise NotImplementedError('not written yet')",
    "def plotted(x):\n    return plots.line(x)",
]


@pytest.fixture
def notebook(tmp_path):
    cells = [{"cell_type": "code", "source": [source]} for source in CELLS]
    path = tmp_path / "unit.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "x ="}, *cells]}))
    return path


def test_functions_come_with_what_they_read(notebook):
    own = functions_of(notebook, ["answer", "Layer", "unwritten", "elsewhere"])
    assert list(own) == ["answer", "Layer"]
    assert own["answer"](9) == [9.0, 9.0]
    assert own["Layer"]().backward() == 6.0


def test_a_function_that_cannot_be_had_is_named(notebook, tmp_path):
    with pytest.raises(ValueError, match=r"^`plotted` of .*unit\.ipynb wants .* ModuleNotFoundErr"):
        functions_of(notebook, ["plotted"])
    for text in ("no JSON", "{}"):
        (tmp_path / "other").write_text(text)
        with pytest.raises(
            ValueError, match=r"^--own wants a notebook of yours.*other cannot be re"
        ):
            functions_of(tmp_path / "other", ["answer"])
    with pytest.raises(ValueError, match=r"missing cannot be read as one \(FileNotFoundError"):
        functions_of(tmp_path / "missing", ["answer"])
