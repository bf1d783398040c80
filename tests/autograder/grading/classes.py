"""Results of graded classes, made from the answer banks; and disguised copies of answers."""

import ast
import random
import textwrap
from pathlib import Path

from autograder import catalogue
from autograder.checking.verdict import Verdict
from autograder.grading.journal import Journal, path_of
from autograder.grading.result import SubmissionResult
from tests.notebooks.filling import answer_banks_of, released, solved, wrong_answers

NOT_WRITTEN = "Not written yet."


def clean(source: str) -> str:
    return textwrap.dedent(source).strip()


def results_of_a_class(unit: str, num_students: int, seed: int = 0) -> list[SubmissionResult]:
    """Students who give right, wrong and no answers, as the answer banks hold them."""
    chance = random.Random(seed)
    return [_result(unit, f"s{n:03}", chance) for n in range(num_students)]


def _result(unit: str, student: str, chance: random.Random) -> SubmissionResult:
    items = next(each for each in catalogue.units() if each.folder == unit).exercises
    graded = [item for item in items if not item.manual]
    stubs = {cell.id: cell.source for cell in released(unit).cells}
    skill = chance.random()
    answers, verdicts = {}, []
    for item in graded:
        bank = answer_banks_of(unit)[item.id]
        told = {"exercise": item.id, "max_points": item.points, "hidden": True}
        if chance.random() < 0.1 + 0.2 * item.extra:
            answers[item.id] = stubs[item.id]
            verdict = Verdict(**told, points=0.0, sentence=NOT_WRITTEN, written=False)
        elif chance.random() < (0.4 + skill) / item.difficulty:
            answers[item.id] = clean(chance.choice([*bank.right, solved(unit)[item.id]]))
            verdict = Verdict(**told, points=item.points, sentence="All cases are right.")
        else:
            wrongs = wrong_answers(item.id)
            wrong = wrongs[min(len(wrongs) - 1, int(chance.expovariate(0.6)))]
            answers[item.id] = clean(wrong.source)
            sentence = "3 of 20 cases are wrong."
            verdict = Verdict(**told, points=wrong.points, sentence=sentence, hint=wrong.hint)
        verdicts.append(verdict)
    return SubmissionResult(
        unit=unit,
        student=student,
        verdicts=tuple(verdicts),
        answers=answers,
        cpu_seconds=round(chance.uniform(2, 9), 2),
    )


def write_journal(root: Path, results: list[SubmissionResult]) -> Path:
    journal = Journal(path_of(root, results[0].unit))
    for each in results:
        journal.record_result(each)
    return journal.path


def disguised(source: str) -> str:
    """The same code: other names, no comment, other line breaks, independent lines swapped."""
    tree = ast.parse(clean(source))
    mine = {node.id for node in ast.walk(tree) if _is_stored(node)}
    mine |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    tree = _Renamed({name: f"my_{n}" for n, name in enumerate(sorted(mine))}).visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            is_told = isinstance(node.body[0], ast.Expr) and len(node.body) > 1
            node.body = _swapped(node.body[1:] if is_told else node.body)
    return ast.unparse(tree)


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names.get(node.arg, node.arg)
        self.generic_visit(node)
        return node


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _swapped(body: list[ast.stmt]) -> list[ast.stmt]:
    """Neighbours that assign change places where neither needs the other."""
    body = list(body)
    for n in range(len(body) - 1):
        one, other = body[n : n + 2]
        is_tied = _stored(one) & _named(other) or _stored(other) & _named(one)
        if isinstance(one, ast.Assign) and isinstance(other, ast.Assign) and not is_tied:
            body[n : n + 2] = [other, one]
    return body


def _stored(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if _is_stored(each)}


def _named(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
