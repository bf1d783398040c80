"""A stub that ran after a student's own cell hides nothing from its check."""

import inspect

import pytest

from autograder.checking.own_cells import written

STUB = 'def f(n):\n    raise NotImplementedError("not written yet")'


def kernel(*cells):
    names = {"In": ["", *cells]}
    for source in cells:
        exec(source, names)
    return names


def test_the_last_function_that_is_written_is_taken_with_the_names_of_the_notebook(capsys):
    names = kernel("k = 2", "def f(n):\n    return n", "def f(n):\n    return k * n", STUB)
    names["k"] = 3
    found = written(names["f"])
    assert found(2) == 6
    assert names["f"] is not found
    assert "this is your function of In[3]" in capsys.readouterr().out
    assert inspect.getsource(found) == "def f(n):\n    return k * n"


@pytest.mark.parametrize("cells", [(STUB,), (STUB, "f = 3", STUB), ("def g(n): return n", STUB)])
def test_a_stub_alone_stays_a_stub(cells):
    names = kernel(*cells)
    assert written(names["f"]) is names["f"]


@pytest.mark.parametrize("answer", [3, None, len, kernel])
def test_what_is_no_stub_is_what_it_is(answer):
    assert written(answer) is answer
