"""The cells that run: the student's, and given ones that define a name which they read."""

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder import catalogue
from autograder.cells import cell_key, is_solution
from autograder.grading.run.notebook_plan import Question, RunCell, steps
from tests.notebooks.filling import UNITS, filled, released, solved


def a_cell(source, name, *, solution=False, grade=False, tags=()):
    cell = new_code_cell(source, id=name)
    if solution or grade:
        cell.metadata["nbgrader"] = {
            "grade_id": name,
            "solution": solution,
            "grade": grade,
            "points": 1.0,
        }
    cell.metadata["tags"] = list(tags)
    return cell


def a_release():
    return new_notebook(
        cells=[
            a_cell("import math\nimport torch as t", "imports"),
            a_cell("unused = 1", "unused"),
            a_cell("base = 2", "base"),
            a_cell("scale = base * 3", "scale"),
            a_cell("raise NotImplementedError", "x", solution=True),
            a_cell('check("u00-state-gib", f)', "x-test", grade=True),
            a_cell("f(7); shown = scale", "figure"),
            a_cell("slow = 1", "slow", tags=["demonstration"]),
        ]
    )


def ran(answer, *added):
    """Ids of the cells that run, with an answer and cells that a student added."""
    release = a_release()
    mine = a_release()
    next(cell for cell in mine.cells if is_solution(cell)).source = answer
    mine.cells += [new_code_cell(source, id=f"mine-{n}") for n, source in enumerate(added)]
    planned = steps(mine, release)
    assert [step.position for step in planned] == sorted(step.position for step in planned)
    return [cell_key(mine.cells[step.position]) for step in planned]


def test_a_function_that_needs_nothing_runs_alone():
    assert ran("def f(n): return 2 * n") == ["x", "x-test"]


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        ("def f(n): return math.sqrt(n)", ["imports"]),
        ("def f(n): return scale * n", ["base", "scale"]),
        ("def f(scale): return scale", []),
        ("f = lambda n: [scale for _ in range(n)]", ["base", "scale"]),
        ("class f:\n    def g(self):\n        return t.ones(scale)", ["imports", "base", "scale"]),
        ("def f(n):\n    unused = n\n    return unused", []),
        ("%matplotlib inline\ndef f(n): return unused", ["unused"]),
    ],
)
def test_given_cells_run_if_they_define_what_is_read(answer, given):
    assert ran(answer) == [*given, "x", "x-test"]


def test_a_cell_of_the_students_own_runs_with_what_it_needs():
    assert ran("f = 1", "print(unused, shown)") == [
        *["unused", "base", "scale", "x", "x-test", "figure"],
        "mine-0",
    ]


def test_demonstrations_never_run():
    assert "slow" not in ran("def f(n): return slow")


@pytest.mark.parametrize("source", ["def f(:", "\0", "(" * 1000, "lambda: (yield)"])
def test_what_is_no_python_stands_in_the_plan_and_needs_nothing(source):
    assert ran(source) == ["x", "x-test"]


@pytest.mark.parametrize("unit", UNITS)
def test_every_automatic_exercise_is_asked_for_once(unit):
    release = released(unit)
    notebook = filled(unit, solved(unit))
    planned = steps(notebook, release)
    asked = [step for step in planned if isinstance(step, Question)]
    course = next(each for each in catalogue.units() if each.folder == unit)
    assert [ask.exercise for ask in asked] == [
        item.id for item in course.exercises if not item.manual
    ]
    for ask in asked:
        assert f'check("{ask.exercise}", {ask.name})' in notebook.cells[ask.position].source
    num_code_cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    assert sum(isinstance(step, RunCell) for step in planned) < num_code_cells / 2


def test_an_answer_that_needs_a_cell_further_down_is_asked_behind_that():
    release = a_release()
    mine = a_release()
    next(cell for cell in mine.cells if is_solution(cell)).source = "def f(n): return helper(n)"
    mine.cells += [
        new_code_cell("def helper(n): return less(n)", id="mine-0"),
        new_code_cell("def less(n): return n", id="mine-1"),
        new_code_cell("def other(n): return n", id="mine-2"),
    ]
    ids = [cell_key(mine.cells[step.position]) for step in steps(mine, release)]
    assert ids == ["x", "mine-0", "mine-1", "x", "x-test", "mine-2"]
