"""Every answer that differs from a model answer in one small place, and what to ask of it.

Where no mistake of an exercise's table explains an answer, one of these often does: a factor or a
term is gone, one size stands for another, a constant is another, a division is rounded or is not, a
comparison takes the wrong side of its limit. The question says what kind of thing is amiss, and in
which part of the answer: by a key of the result, or by a name of the model answer whose words stand
in the exercise's text. Other names of the model answer mean nothing to a student.
"""

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autograder.master_code import is_in

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
    "sign": (
        "Your numbers fit an answer where a sign in {part} is wrong. What is added there, and "
        "what is taken away?"
    ),
    "inverted": (
        "Your numbers fit an answer where a quotient in {part} is upside down. What is divided "
        "by what?"
    ),
    "multiplied": (
        "Your numbers fit an answer where {part} multiplies by what it should be divided by. "
        "Should it grow with that?"
    ),
    "direction": (
        "Your numbers fit an answer where a division in {part} is rounded the other way. Does "
        "what is left over count as a whole one?"
    ),
    "extreme": (
        "Your numbers fit an answer where {part} takes the smaller of two numbers for the "
        "larger, or the larger for the smaller. Which one decides?"
    ),
}
ONE_STEP, LAST_STEP = "one step", "the last step"
OTHER_COMPARISON = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OTHER_EXTREME = {"min": "max", "max": "min"}


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
    sizes, seen = _sizes(tree), {ast.unparse(tree)}
    places = _places(tree)
    found = []
    for node in list(ast.walk(tree)):
        for kind, new in _changes(node, sizes):
            source = _source_with(tree, places[node], new)
            if source not in seen:
                seen.add(source)
                found.append(Mutation(kind, _part_around(places, node, statement), source))
    return tuple(found)


class _Place(NamedTuple):
    """Where a node stands: in a field of its parent, and where in it if that is a list."""

    parent: ast.AST
    field: str
    position: int | None

    def put(self, node: ast.AST) -> None:
        """Let another node stand there."""
        if self.position is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.position] = node


def _places(tree: ast.AST) -> dict[ast.AST, _Place]:
    places = {}
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            for position, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(each, ast.AST):
                    places[each] = _Place(parent, field, position)
    return places


def _source_with(tree: ast.AST, place: _Place, new: ast.AST) -> str:
    """The source with another node in a place; the tree stays as it was."""
    value = getattr(place.parent, place.field)
    old = value if place.position is None else value[place.position]
    place.put(new)
    try:
        return ast.unparse(tree)
    finally:
        place.put(old)


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
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            other = ast.BinOp(left, ast.Sub(), right)
            return [("term", left), ("term", right), ("sign", other)]
        case ast.BinOp(op=ast.Sub(), left=left, right=right):
            other = ast.BinOp(left, ast.Add(), right)
            return [("term", left), ("term", right), ("sign", other)]
        case ast.UnaryOp(
            ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), left), ast.FloorDiv(), right)
        ):
            return [("direction", ast.BinOp(left, ast.FloorDiv(), right))]
        case ast.BinOp(op=ast.FloorDiv() | ast.Div(), left=left, right=right):
            return _other_quotients(node, left, right)
        case ast.Constant(value=value) if type(value) is int:
            numbers = {value + 1, value - 1, 2 * value, value // 2} - {value}
            return [("constant", ast.Constant(number)) for number in sorted(numbers)]
        case ast.Compare(ops=[op], left=left, comparators=right) if type(op) in OTHER_COMPARISON:
            return [("limit", ast.Compare(left, [OTHER_COMPARISON[type(op)]()], right))]
        case ast.Call(func=ast.Name(id=("min" | "max") as name), args=args, keywords=keywords):
            return [("extreme", ast.Call(ast.Name(OTHER_EXTREME[name]), args, keywords))]
        case ast.Name() | ast.Attribute() if ast.unparse(node) in sizes:
            others = (each for each in sizes if each != ast.unparse(node))
            return [("size", ast.parse(each, mode="eval").body) for each in others]
    return []


def _other_quotients(
    node: ast.BinOp, left: ast.expr, right: ast.expr
) -> list[tuple[str, ast.expr]]:
    is_whole = isinstance(node.op, ast.FloorDiv)
    kind, other = ("unrounded", ast.Div()) if is_whole else ("rounded", ast.FloorDiv())
    return [
        (kind, ast.BinOp(left, other, right)),
        ("divisor", left),
        ("inverted", ast.BinOp(right, node.op, left)),
        ("multiplied", ast.BinOp(left, ast.Mult(), right)),
        *([("direction", _rounded_up(left, right))] if is_whole else []),
    ]


def _rounded_up(left: ast.expr, right: ast.expr) -> ast.expr:
    negative = ast.UnaryOp(ast.USub(), left)
    return ast.UnaryOp(ast.USub(), ast.BinOp(negative, ast.FloorDiv(), right))


def _part_around(places: Mapping[ast.AST, _Place], node: ast.AST, statement: str) -> str:
    """What a node is a part of: a key of the result, or what it is assigned to."""
    part, path = LAST_STEP, _path_to(places, node)
    for outer in path:
        match outer:
            case ast.Assign(targets=[ast.Name(id=target)]):
                part = _named(target, statement)
            case ast.AugAssign(target=ast.Name(id=target)):
                part = _named(target, statement)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                named = _beside(targets, values, path)
                part = _named(ast.unparse(named) if named else "", statement)
            case ast.Dict(keys=keys, values=values):
                key = _text(_beside(keys, values, path))
                part = _quoted(key) if key else part
    return part


def _named(name: str, statement: str) -> str:
    """A name of the model answer, if a student can know what it means."""
    return _quoted(name) if is_in(name, statement) else ONE_STEP


def _quoted(name: str) -> str:
    return f"“{name.replace('_', ' ')}”"


def _text(key: ast.expr | None) -> str:
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _beside(
    names: Sequence[ast.expr | None], values: Sequence[ast.expr], path: Sequence[ast.AST]
) -> ast.expr | None:
    """The name of the value that is on a path."""
    pairs = zip(names, values, strict=False)
    return next((name for name, value in pairs if value in path), None)


def _path_to(places: Mapping[ast.AST, _Place], node: ast.AST) -> list[ast.AST]:
    """The nodes around a node, the outermost first, and the node."""
    path = [node]
    while path[-1] in places:
        path.append(places[path[-1]].parent)
    return path[::-1]
