"""An output is shown where its cell needs no answer, and nothing that was made from one."""

import pytest
from nbformat import v4

from autograder.book.outputs import outputs_to_show


def code(source, name, printed="something", **nbgrader):
    cell = v4.new_code_cell(source, id=name)
    cell.metadata.nbgrader = {"grade": False, "solution": False} | nbgrader
    cell.outputs = [v4.new_output("stream", text=printed)]
    return cell


def shown(*cells, released=None):
    notebook = v4.new_notebook(cells=[code("def f(n): return n", "f", solution=True), *cells])
    return sorted(outputs_to_show(notebook, released or notebook))


def test_a_given_cell_is_shown():
    assert shown(code("count_flops(model)", "given")) == ["given"]


@pytest.mark.parametrize(
    "source",
    [
        "f(3)",
        "[f(n) for n in sizes]",
        "check('u00-f', f)",
        "try_it(measured, 3)",
        "predict('u00-guess', None)",
        "progress()",
        "plan()",
    ],
)
def test_what_calls_an_answer_or_is_about_a_student_is_not(source):
    assert shown(code(source, "cell")) == []


@pytest.mark.parametrize(
    "makes",
    [
        "x = f(3)",
        "x, y = 1, f(3)",
        "x: int = f(3)",
        "for x in f(3): pass",
        "def x(): return f(3)",
        "x = []\nx.append(f(3))",
        "x[0] = f(3)",
        "x.size = f(3)",
        "import numpy as x\nx.seed(f(3))",
    ],
)
def test_nor_what_was_made_from_an_answer(makes):
    later = code("y2 = x\nprint(y2)", "later"), code("print(y2)", "after-that")
    assert shown(code("x = [0]", "first"), code(makes, "makes"), *later) == ["first"]


def test_a_name_that_is_given_anew_is_no_answer_any_more():
    assert shown(code("x = f(3)", "a"), code("x = 3", "b"), code("print(x)", "c")) == ["b", "c"]


def test_what_lends_an_answer_gives_the_courses_function():
    lent = code("g = answer('u00-f', f)\nprint(g(3))", "lends")
    assert shown(lent, code("print(g(4))", "uses")) == ["lends", "uses"]


def test_a_graded_cell_and_one_that_students_have_otherwise_are_not():
    graded = code("print(1)", "graded", grade=True)
    changed = code("print(2)\n# hidden", "changed")
    released = v4.new_notebook(cells=[code("print(1)", "graded"), code("print(2)", "changed")])
    assert shown(graded, changed, released=released) == []


def test_the_line_that_names_whose_function_was_used_is_left_out():
    printed = "Using your own “FLOPs” here.\n36\n"
    notebook = v4.new_notebook(cells=[code("print(1)", "given", printed)])
    (output,) = outputs_to_show(notebook, notebook)["given"]
    assert output.text == "36\n"
