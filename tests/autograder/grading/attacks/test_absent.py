"""What would answer an exercise is not in the process in which its answers are observed."""

import ast

import pytest

from autograder import catalogue
from autograder.checking.lookup import practice_check_of
from autograder.grading.run.session import Session
from autograder.grading.run.submission_limits import Limits
from autograder.grading.sandbox import process_sandbox

PROBE = """
import functools, importlib, sys, types

def found(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        owner, _, part = name.rpartition(".")
        return getattr(importlib.import_module(owner), part)

def functions(thing):
    if isinstance(thing, types.ModuleType):
        for value in vars(thing).values():
            if getattr(value, "__module__", None) == thing.__name__:
                yield from functions(value)
    elif isinstance(thing, type):
        for value in vars(thing).values():
            if not isinstance(value, type):
                yield from functions(value)
    elif isinstance(thing, property):
        yield from functions(thing.fget)
    elif isinstance(thing, functools.cached_property):
        yield from functions(thing.func)
    elif isinstance(thing, types.FunctionType):
        yield thing
    elif hasattr(thing, "__wrapped__"):  # of a cache, a static method, a class method
        yield from functions(thing.__wrapped__)

def whole(name):
    return sorted(
        each.__name__ for each in functions(found(name)) if each.__code__.co_name != "_removed"
    )

def readable(name):
    thing = found(name)
    module = thing if isinstance(thing, types.ModuleType) else sys.modules[thing.__module__]
    texts = []
    for path in (module.__file__, module.__cached__):
        try:
            texts.append(open(path, "rb").read())
        except OSError:
            pass
    return [len(text) for text in texts if text]

print({name: (whole(name), readable(name)) for name in NAMES})
"""
ANSWERS = {
    unit.folder: sorted(
        {
            name
            for item in unit.exercises
            if not item.manual
            for name in practice_check_of(item.id).give_away
        }
    )
    for unit in catalogue.units()
}


@pytest.mark.parametrize("unit", [unit for unit, names in ANSWERS.items() if names])
def test_nothing_that_answers_is_there_by_name_or_on_the_disk(unit):
    names = ANSWERS[unit]
    session = Session(process_sandbox.ready(is_unsafe=False), Limits())
    try:
        session.begin_anew(names)
        (output,) = session.run(PROBE.replace("NAMES", repr(names)))["outputs"]
    finally:
        session.end()
    assert ast.literal_eval(output["text"]) == dict.fromkeys(names, ([], []))


def test_where_cells_run_for_their_outputs_it_is_there():
    session = Session(process_sandbox.ready(is_unsafe=False), Limits())
    source = "from course_utils.instruments import count_flops; import torch\n"
    source += "count_flops(lambda: torch.ones(2, 3) @ torch.ones(3, 5)).forward_flops"
    try:
        (output,) = session.run(source)["outputs"]
    finally:
        session.end()
    assert output["data"]["text/plain"] == "60"
