"""What nobody but staff may hold: model answers as syntax trees, solutions and hidden tests."""

import ast
import re
import textwrap

from autograder import catalogue
from autograder.authoring import master
from autograder.checking import practice_pack
from autograder.exercises.model_answers import model_source
from tests.notebooks.filling import ROOT

RECORDED = [
    item.id
    for unit in catalogue.units()
    for item in unit.exercises
    if not item.manual and practice_pack.is_recorded(item.id)
]
TEACHES = {"formulas", "reference"}  # rooms of the package that hold what exercises ask for


def syntax_trees(source):
    """Each function of a source as a syntax tree, without docstring, types and name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            names = [each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)]
            yield str([names, *map(ast.dump, body)])


def model_trees(exercise):
    """The syntax trees of an exercise's model answer."""
    source = model_source(exercise)
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]
    texts = (textwrap.dedent(ast.get_source_segment(source, n, padded=True)) for n in functions)
    # what holds an answer may have functions and methods that the notebook hands out
    found = {next(syntax_trees(text)) for text in texts if "BEGIN SOLUTION" in text}
    assert found
    return found


def secrets_of(unit):
    """Texts of a unit's master that stand between its markers: solutions and hidden tests."""
    solved = master.read(ROOT / "solutions" / unit / f"{unit}.py").notebook
    found = master.solution_bodies(solved) + master.hidden_tests(solved)
    assert found
    return found


def words(text):
    """A text as its words, so that markup, line breaks and indentation make no difference."""
    return " ".join(["", *re.findall(r"\w+", text), ""])


def said_of(secret):
    """What must not be found of a secret: all of its code, each longer sentence of its prose."""
    sentences = (words(each) for each in re.split(r"(?<=[.:;])\s", secret))
    return {words(secret), *(each for each in sentences if len(each.split()) >= 8)}
