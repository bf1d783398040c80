"""Where answers are observed, nothing of the course is left but what its exercises need."""

import ast
import json

import pytest

from autograder import catalogue
from autograder.checking.lookup import check_of
from autograder.exercises import kept
from autograder.grading.run.session import Session
from autograder.grading.run.submission_limits import Limits
from autograder.grading.sandbox import kept_code, process_sandbox
from autograder.kept_names import FILE, OPEN, is_within

FORKS = [fork for unit in catalogue.units() for fork in kept_code.forks_of(f"u{unit.number}")]
# Looks at every function that lives in the process, whatever name leads to it.
PROBE = """
import gc, types
places = ("course_utils.", "autograder.observers.", "autograder.exercises.")
def place(f):
    return f"{f.__globals__.get('__name__')}.{f.__code__.co_qualname}"
alive = [
    place(f) for f in gc.get_objects()
    if type(f) is types.FunctionType and not f.__code__.co_filename.startswith("<")
    and f.__code__.co_name != "not_here"
]
def within(name, names):
    return any(name == each or name.startswith(each + ".") for each in names)
print(sorted({n for n in alive if n.startswith(places) and not within(n, KEPT)})
      + sorted({n for n in alive if within(n, ABSENT)}))
"""
FILES = """
import os, sys, course_utils
root = os.path.dirname(course_utils.__file__)
found = [os.path.join(at, f) for at, _, files in os.walk(root) for f in files]
names = [name for name in sys.modules if any((name + ".").startswith(a + ".") for a in ABSENT)]
found += [sys.modules[name].__file__ for name in names]
print([path for path in found if os.path.getsize(path)], len(names))
"""
RELOADED = """
import importlib, sys
for name in [name for name in sys.modules if name.startswith("course_utils.formulas")]:
    try:
        importlib.reload(sys.modules[name])
        del sys.modules[name]
        importlib.import_module(name)
    except ImportError: pass
import course_utils.formulas.tensors as tensors
tensors.tensor_bytes((3, 5), 4)
"""


@pytest.fixture
def told():
    """The words that a cell prints, or of its error, in a process that keeps what a fork keeps."""
    session = Session(process_sandbox.ready(is_unsafe=False), Limits())

    def run(fork, source):
        session.begin_anew(fork)
        values = {"KEPT": repr([*fork.kept, *OPEN]), "ABSENT": repr(fork.absent)}
        for name, value in values.items():
            source = source.replace(name, value)
        (output,) = session.run(source)["outputs"]
        return output.get("text") or output["ename"]

    yield run
    session.end()


def test_the_file_is_what_the_build_derives():
    assert FILE.read_text(encoding="utf-8") == kept.text()


def test_every_exercise_that_is_graded_by_a_check_has_one_process():
    graded = [e.id for unit in catalogue.units() for e in unit.exercises if not e.manual]
    assert sorted(name for fork in FORKS for name in fork.exercises) == sorted(graded)


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.exercises[0])
def test_no_answer_of_its_exercises_is_kept(fork):
    """Neither what a check names, nor a fallback, of its own exercises or of those beside them."""
    for exercise in fork.exercises:
        check = check_of(exercise)
        answers = [each for each in (*check.give_away, check.fallback) if each]
        assert not [name for name in fork.kept if is_within(name, answers)]


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.exercises[0])
def test_formulas_have_nothing_of_the_course_that_measures_or_knows(fork):
    """Except for numbers of its own, only sizes and events are left beside a formula."""
    if any(check_of(each).is_formula for each in fork.exercises):
        assert fork.kept == frozenset()


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.exercises[0])
def test_no_other_function_lives_whatever_leads_to_it(fork, told):
    assert told(fork, PROBE) == "[]\n"


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.exercises[0])
def test_nothing_is_compared_beside_an_answer(fork):
    """Results go out as they are: what compares them is not there."""
    assert not [name for name in fork.kept if is_within(name, ["autograder.observers.comparing"])]


@pytest.mark.parametrize("unit", ["u00", "u05", "u12"])
def test_no_file_of_the_course_and_of_what_answers_can_be_read(unit, told):
    fork = max(kept_code.forks_of(unit), key=lambda each: len(each.absent))
    files, num_absent = ast.literal_eval(told(fork, FILES).replace("] ", "], "))
    assert files == []
    assert (num_absent > 0) == bool(fork.absent)


def test_nothing_comes_back_when_it_is_imported_again(told):
    (fork,) = kept_code.forks_of("u00")
    assert told(fork, RELOADED) in ("NotHereError", "ModuleNotFoundError", "ImportError")


def test_where_cells_run_for_their_outputs_all_is_there():
    session = Session(process_sandbox.ready(is_unsafe=False), Limits())
    source = "from course_utils.instruments import count_flops; import torch\n"
    source += "count_flops(lambda: torch.ones(2, 3) @ torch.ones(3, 5)).forward_flops"
    try:
        (output,) = session.run(source)["outputs"]
    finally:
        session.end()
    assert output["data"]["text/plain"] == "60"


def test_what_an_exercise_needs_is_followed_through_all_that_holds_it():
    reached = kept._Reached()
    space = {"table": {"x": [kept.text]}, "json": json}
    reached.read(compile("table['x'][0](json.dumps)", "-", "exec"), space)
    assert "autograder.exercises.kept.derived" in reached.names


def test_what_is_gone_can_be_looked_at_where_it_raises():
    """A traceback reads the names of each frame, also of functions within functions."""
    kept, also = 1, 2

    def inner():
        return kept + also

    kept_code._remove_code(inner)
    with pytest.raises(kept_code.NotHereError) as caught:
        inner(3, x=4)
    assert "free_0" in caught.traceback[-1].frame.f_locals
