"""Changes of one place that turn a right answer into one as people get it wrong.

They go beyond `autograder.exercises.mutations`, of which every formula's check knows what they
give: a sign, an order, a call, a keyword, a condition or a whole statement is another or gone.

    >>> [each.source for each in small_changes("a = f(b, c)")]
    ['a = f(c, b)', 'a = b', 'pass']
"""

import ast
import copy
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

OTHER_OPERATOR = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
ORDERED = ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.MatMult
OTHER_NAME = {
    "min": "max",
    "max": "min",
    "amin": "amax",
    "amax": "amin",
    "ceil": "floor",
    "floor": "ceil",
    "any": "all",
    "all": "any",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "mul_": "div_",
    "div_": "mul_",
    "tril": "triu",
    "triu": "tril",
    "append": "extend",
}
GUARDS = ("strict",)  # keywords without which a right answer is right
KEPT_WHOLE = (ast.FunctionDef, ast.ClassDef, ast.Pass, ast.Nonlocal, ast.Global, ast.arguments)


class SmallChange(NamedTuple):
    """A changed answer, and what kind of change it is."""

    kind: str
    source: str


def small_changes(answer: str) -> list[SmallChange]:
    """All small changes of the source of an answer, each once.

    Args:
        answer: The source; its docstrings are not changed, and `GUARDS` are left out.
    """
    tree = ast.parse(answer)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        call.keywords = [each for each in call.keywords if each.arg not in GUARDS]
    seen, found = {ast.unparse(tree)}, []
    for position, node in enumerate(ast.walk(tree)):
        for number, _ in enumerate(_changes(node)):
            changed = copy.deepcopy(tree)
            kind, old, new = _changes(list(ast.walk(changed))[position])[number]
            source = ast.unparse(ast.fix_missing_locations(_Replacing(old, new).visit(changed)))
            if source not in seen:
                seen.add(source)
                found.append(SmallChange(kind, source))
    return found


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """The new node in place of the old one."""
        return self._new if node is self._old else super().generic_visit(node)


def _changes(node: ast.AST) -> list[tuple[str, ast.AST, ast.AST]]:
    """Kind of change, the node that goes, and the one that comes."""
    return [
        *((kind, node, new) for kind, new in _other_expressions(node)),
        *((kind, node, new) for kind, new in _other_branches(node)),
        *(("exchanged", node, new) for new in _with_exchanged_names(node)),
        *(("left out", node, ast.Pass()) for _ in range(_may_go(node))),
    ]


def _other_expressions(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.BinOp(op=op, left=left, right=right):
            if type(op) in OTHER_OPERATOR:
                yield "operator", ast.BinOp(left, OTHER_OPERATOR[type(op)](), right)
            if isinstance(op, ORDERED):
                yield "order", ast.BinOp(right, op, left)
        case ast.UnaryOp(operand=operand):
            yield "sign", operand
        case ast.Constant(value=bool(value)):
            yield "flag", ast.Constant(not value)
        case ast.Constant(value=float(value)):
            yield "constant", ast.Constant(2 * value)
        case ast.Slice(lower=lower, upper=upper) if lower or upper:
            yield from (("slice", ast.Slice(lower)), ("slice", ast.Slice(None, upper)))
        case ast.Call(func=func, args=args, keywords=keywords):
            yield from _other_calls(func, args, keywords)


def _other_branches(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "condition", ast.BoolOp(other, values)
        case ast.IfExp(body=body, orelse=orelse):
            yield from (("condition", body), ("condition", orelse))
        case ast.If(body=body, orelse=orelse) | ast.While(body=body, orelse=orelse):
            for holds in (False, True):
                yield "condition", ast.If(ast.Constant(holds), body, orelse)
        case ast.AugAssign(op=op, target=target, value=value):
            if type(op) in OTHER_OPERATOR:
                yield "operator", ast.AugAssign(target, OTHER_OPERATOR[type(op)](), value)
            yield "overwritten", ast.Assign([target], value)


def _other_calls(
    func: ast.expr, args: list[ast.expr], keywords: list[ast.keyword]
) -> Iterator[tuple[str, ast.AST]]:
    name = func.attr if isinstance(func, ast.Attribute) else ast.unparse(func)
    if name in OTHER_NAME:
        other = copy.deepcopy(func)
        if isinstance(other, ast.Attribute):
            other.attr = OTHER_NAME[name]
        else:
            other = ast.Name(OTHER_NAME[name], ast.Load())
        yield "function", ast.Call(other, args, keywords)
    if name == "range" and not keywords:
        last = ast.BinOp(args[-1], ast.Sub(), ast.Constant(1))
        yield "range", ast.Call(func, [*args[:-1], last], [])
    for gone in keywords:
        yield "keyword", ast.Call(func, args, [each for each in keywords if each is not gone])
    for first in range(len(args) - 1):
        swapped = [*args[:first], args[first + 1], args[first], *args[first + 2 :]]
        yield "order", ast.Call(func, swapped, keywords)
    if isinstance(func, ast.Attribute) and not args:
        yield "call", func.value
    elif args and not isinstance(args[0], ast.Starred):
        yield "call", args[0]


def _with_exchanged_names(node: ast.AST) -> Iterator[ast.AST]:
    """A simple statement with two of the names that it reads in one another's place."""
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.Return | ast.Expr) or not node.value:
        return
    called = {each.func for each in ast.walk(node) if isinstance(each, ast.Call)}
    values = {each.value for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    read = (each for each in ast.walk(node.value) if isinstance(each, ast.Name))
    names = sorted({each.id for each in read if each not in called | values})
    for one, other in pairwise(names):
        new = copy.deepcopy(node)
        for each in ast.walk(new.value):
            if isinstance(each, ast.Name) and each.id in (one, other):
                each.id = other if each.id == one else one
        if _in_order(new.value) != _in_order(node.value):
            yield new


def _in_order(node: object) -> str:
    """An expression as text, the same however the operands of a sum or a product are ordered."""
    match node:
        case ast.BinOp(op=ast.Add() | ast.Mult() as op):
            return f"{type(op)}{sorted(map(_in_order, _operands(node, type(op))))}"
        case ast.AST():
            return f"{type(node)}{[_in_order(each) for _, each in ast.iter_fields(node)]}"
        case list():
            return f"{[*map(_in_order, node)]}"
    return repr(node)


def _operands(node: ast.AST, operator: type[ast.operator]) -> Iterator[ast.AST]:
    """What a sum or a product is of."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        yield from _operands(node.left, operator)
        yield from _operands(node.right, operator)
    else:
        yield node


def _may_go(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return isinstance(node, ast.stmt) and not isinstance(node, KEPT_WHOLE)
