"""Every answer that differs from a model answer in one small place, and what to ask of it.

Where no mistake of an exercise's table explains an answer, one of these often does: a factor or a
term is gone, one size stands for another, a constant is another, a division is rounded or is not, a
comparison takes the wrong side of its limit. The question says what kind of thing is amiss, and in
which part of the answer: by a key of the result, or by a name of the model answer whose words stand
in the exercise's text. Other names of the model answer mean nothing to a student.
"""

import ast
import copy
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

QUESTIONS = {
    "factor": (
        "Your numbers fit an answer where {part} is missing a factor. What should it grow with?"
    ),
    "term": "Your numbers fit an answer where {part} is missing a term. What else belongs there?",
    "size": (
        "Your numbers fit an answer where {part} uses one size instead of another. Which sizes "
        "does it depend on?"
    ),
    "constant": (
        "Your numbers fit an answer where a constant in {part} is different. What does each "
        "number there count?"
    ),
    "divisor": (
        "Your numbers fit an answer where {part} is missing a divisor. What should it be "
        "divided by?"
    ),
    "rounded": (
        "Your numbers fit an answer where {part} is rounded. Which division drops a remainder?"
    ),
    "unrounded": (
        "Your numbers fit an answer where {part} has a fraction. Which division should give a "
        "whole number?"
    ),
    "limit": (
        "Your numbers fit an answer where a comparison in {part} is wrong at a tie. What holds "
        "when the two sides are equal?"
    ),
}
ONE_STEP, LAST_STEP = "one step", "the last step"
SHORTEST = 4  # letters of a name that stands in a text by no chance
OTHER_COMPARISON = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


@dataclass(frozen=True)
class Mutation:
    """A model answer with one change.

    Attributes:
        kind: What kind of change, a key of `QUESTIONS`.
        part: Where in the answer, as a student would call it.
        source: The changed answer.
    """

    kind: str
    part: str
    source: str

    @property
    def question(self) -> str:
        """What to ask of somebody who answers so."""
        return QUESTIONS[self.kind].format(part=self.part)


@functools.cache
def mutations(answer: str, statement: str = "") -> tuple[Mutation, ...]:
    """All mutations of the source of an answer, each once.

    Args:
        answer: The source.
        statement: The text of the exercise, as students read it.
    """
    tree = ast.parse(answer)
    names, seen = _sizes(tree), {ast.unparse(tree)}
    found = []
    for position, node in enumerate(ast.walk(tree)):
        for number, (kind, _) in enumerate(_changes(node, names)):
            changed = copy.deepcopy(tree)
            old = list(ast.walk(changed))[position]
            _, new = _changes(old, names)[number]
            source = ast.unparse(ast.fix_missing_locations(_Replacing(old, new).visit(changed)))
            if source not in seen:
                seen.add(source)
                found.append(Mutation(kind, _part_around(tree, node, statement), source))
    return tuple(found)


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """The new node in place of the old one."""
        return self._new if node is self._old else super().generic_visit(node)


def _sizes(tree: ast.AST) -> list[str]:
    """What may be taken for one another: whole numbers among arguments, and sizes of a model."""
    arguments = [node for node in ast.walk(tree) if isinstance(node, ast.arg)]
    whole = {each.arg for each in arguments if _is_whole(each.annotation)}
    models = {each.arg for each in arguments} - whole
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    inner = {
        ast.unparse(each)
        for each in attributes
        if isinstance(each.value, ast.Name) and each.value.id in models
    }
    return sorted(whole | inner)


def _is_whole(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == "int"


def _changes(node: ast.AST, sizes: Sequence[str]) -> list[tuple[str, ast.expr]]:
    """What a node may be written as instead."""
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return [("factor", left), ("factor", right)]
        case ast.BinOp(op=ast.Pow(), left=left):
            return [("factor", left)]
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            return [("term", left), ("term", right)]
        case ast.BinOp(op=ast.FloorDiv(), left=left, right=right):
            return [("unrounded", ast.BinOp(left, ast.Div(), right)), ("divisor", left)]
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            return [("rounded", ast.BinOp(left, ast.FloorDiv(), right)), ("divisor", left)]
        case ast.Constant(value=value) if type(value) is int:
            numbers = {value + 1, value - 1, 2 * value, value // 2} - {value}
            return [("constant", ast.Constant(number)) for number in sorted(numbers)]
        case ast.Compare(ops=[op], left=left, comparators=right) if type(op) in OTHER_COMPARISON:
            return [("limit", ast.Compare(left, [OTHER_COMPARISON[type(op)]()], right))]
        case ast.Name() | ast.Attribute() if ast.unparse(node) in sizes:
            others = (each for each in sizes if each != ast.unparse(node))
            return [("size", ast.parse(each, mode="eval").body) for each in others]
    return []


def _part_around(tree: ast.AST, node: ast.AST, statement: str) -> str:
    """What a node is a part of: a key of the result, or what it is assigned to."""
    part = LAST_STEP
    for outer in _path_to(tree, node):
        match outer:
            case ast.Assign(targets=[ast.Name(id=target)]):
                part = _named(target, statement)
            case ast.AugAssign(target=ast.Name(id=target)):
                part = _named(target, statement)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = zip(targets, values, strict=False)
                target = next((ast.unparse(t) for t, value in pairs if _holds(value, node)), "")
                part = _named(target, statement)
            case ast.Dict(keys=keys, values=values):
                entries = zip(keys, values, strict=True)
                key = next((_text(key) for key, v in entries if _holds(v, node)), "")
                part = _quoted(key) if key else part
    return part


def _named(name: str, statement: str) -> str:
    """A name of the model answer, if a student can know what it means."""
    words = "[ -]".join(map(re.escape, name.split("_")))
    is_long = len(name) >= SHORTEST
    is_known = is_long and re.search(rf"\b{words}\b", statement, re.IGNORECASE)
    return _quoted(name) if is_known else ONE_STEP


def _quoted(name: str) -> str:
    return f"“{name.replace('_', ' ')}”"


def _text(key: ast.expr | None) -> str:
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _path_to(tree: ast.AST, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes around a node, the outermost first."""
    for inner in ast.iter_child_nodes(tree):
        if _holds(inner, node):
            yield inner
            yield from _path_to(inner, node)


def _holds(outer: ast.AST, node: ast.AST) -> bool:
    return any(each is node for each in ast.walk(outer))
