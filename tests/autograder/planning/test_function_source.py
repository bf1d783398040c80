"""Functions of a notebook as modules of their own."""

import linecache
import sys
import types

import pytest

from autograder.planning.function_source import NotPortable, module_source

CELL = """
import math
import torch.nn.functional as F
from collections.abc import Sequence as Many
from course_utils.configs import ModelConfig

FACTORS = {"up": 2, "down": (1, 3)}
OPEN = open

def half(n):
    return n // 2

def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)

def parameters(model: ModelConfig, sizes: Many = ()) -> int:
    return half(FACTORS["up"] * math.prod(sizes)) + sum(FACTORS["down"]) + even(4)

def with_torch(x):
    return F.relu(x)

def reads_a_file():
    return handle.read()

def reads_nothing_known():
    return nowhere
"""


@pytest.fixture
def notebook(monkeypatch):
    """The names of a notebook with one cell, whose source Python knows."""
    module = types.ModuleType("__main__")
    linecache.cache["<cell>"] = (len(CELL), None, CELL.splitlines(keepends=True), "<cell>")
    monkeypatch.setitem(sys.modules, "__main__", module)
    module.__file__ = "<cell>"
    exec(compile(CELL, "<cell>", "exec"), vars(module))
    yield vars(module)
    del linecache.cache["<cell>"]


def loaded(source):
    space = {"__name__": "planner.parameters"}
    exec(source, space)
    return space


def test_a_module_has_what_the_function_reads_and_nothing_else(notebook):
    source = module_source("parameters", notebook)
    assert loaded(source)["parameters"](None, (2, 3)) == 6 + 4 + 1
    head = source.splitlines()[:5]
    assert head[:3] == [
        "from collections.abc import Sequence as Many",
        "from course_utils.configs.model import ModelConfig",
        "import math",
    ]
    assert "relu" not in source and "reads_a_file" not in source
    assert source.count("def even") == source.count("def odd") == 1


def test_modules_keep_their_names(notebook):
    assert module_source("with_torch", notebook).startswith("import torch.nn.functional as F\n")


def test_what_only_the_notebook_has_is_said(notebook, tmp_path):
    with (tmp_path / "x").open("w+") as handle:
        notebook["handle"] = handle
        with pytest.raises(NotPortable, match="reads `handle`, a TextIOWrapper of the notebook"):
            module_source("reads_a_file", notebook)


def test_a_name_that_is_not_there_is_said(notebook):
    with pytest.raises(NotPortable, match="reads `nowhere`, which the notebook does not define"):
        module_source("reads_nothing_known", notebook)


def test_a_function_without_a_source_is_said(notebook):
    exec("def typed_by_eval(): return 1", notebook)
    with pytest.raises(NotPortable, match="the source of `typed_by_eval` is not known"):
        module_source("typed_by_eval", notebook)
