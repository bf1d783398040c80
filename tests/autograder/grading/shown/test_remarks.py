"""What no exercise needs is named; what right answers and the notebook use is not."""

import signal

import pytest
from nbformat.v4 import new_code_cell

from autograder.cells import cell_key, is_solution
from autograder.checking.error_hints import sentence_and_hint
from autograder.checking.verdict import Verdict
from autograder.grading.sandbox import audit_hook
from autograder.grading.shown.remarks import (
    MAX_CHARACTERS,
    for_a_person,
    on_stopped_answers,
    on_unusual_code,
)
from tests.autograder.grading.attacks.bank import EVERY, UNIT_OF
from tests.notebooks.filling import UNITS, answer_banks_of, filled, released, solved

UNIT = UNITS[0]


def remarks_on(unit, answers, *added):
    release = released(unit)
    notebook = filled(unit, answers)
    notebook.cells += [new_code_cell(source) for source in added]
    return list(on_unusual_code(notebook, release))


def a_solution():
    return next(cell_key(cell) for cell in released(UNIT).cells if is_solution(cell))


@pytest.mark.parametrize("unit", UNITS)
def test_solutions_are_usual(unit):
    assert remarks_on(unit, solved(unit)) == []


@pytest.mark.parametrize("unit", UNITS)
def test_right_answers_in_another_style_are_usual(unit):
    for name, bank in answer_banks_of(unit).items():
        for right in bank.right:
            assert remarks_on(unit, {name: right}) == [], name


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import ctypes", "ctypes"),
        ("from course_utils.formulas import flops", "course_utils.formulas.flops"),
        ("import os; os.kill(1, 9)", "os, os.kill"),
        ("import torch; torch._C", "torch._C itself"),
        ("from torch import *", "torch.*"),
        ("from torch.utils import flop_counter as f", "torch.utils.flop_counter"),
        ("import contextlib as c; c.sys.modules", "sys.modules"),
        ("import torch; t = torch", "torch itself"),
        ("import torch; vars(torch.nn)", "torch.nn itself"),
        ("import math; math.isclose = print", "math.isclose assigned"),
        ("import torch; getattr(torch, '_C')", "torch._C itself"),
        ("import torch; getattr(torch.nn, 'mat' + 'mul')", "getattr, torch.nn itself"),
        ("x = eval('1')", "eval"),
        ("find = eval", "eval"),
        ("𝐞𝐯𝐚𝐥('1')", "eval"),
        ("get_ipython().run_cell('')", "get_ipython"),
        ("f.__code__ = g.__code__", ".__code__"),
        ("error.__traceback__.tb_frame.f_back", ".__traceback__, .f_back, .tb_frame"),
        ("class A:\n    __class__ = int", "__class__"),
        ("class A:\n    def __eq__(self, other): return True", ".__eq__"),
        ("model.num_calls = 0", ".num_calls"),
        ("comm._recorder.log", "._recorder"),
        ("class A:\n    def call(self): self.comm._start()", "._start"),
        ("match comm:\n    case object(_comm=inner): pass", "._comm"),
        ("from torch.profiler import profile", "torch.profiler.profile"),
        ("import torch; torch.autograd.profiler.profile", "torch.autograd.profiler.profile"),
    ],
)
def test_what_no_exercise_needs_is_named(source, words):
    name = a_solution()
    assert remarks_on(UNIT, {name: source}) == [f"{name} uses {words}, which no exercise needs."]


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()",
        "evaluate(x)",
        "getattr(self, 'bias', None)",
        "class A:\n    def _add(self):\n        self._sum = 1\n        return self._add, self._sum",
        "sizes._replace(rows=1)._asdict()",
        "import functools, math; functools.reduce(math.gcd, sizes)",
        "import torch.nn.functional as F; F.silu(x).backward()",
        "from contextlib import contextmanager\n@contextmanager\ndef f(): yield",
        "import copy\ndef f(copy): return copy",
        "class A(B):\n    def __init__(self):\n        super().__init__()\n        self._x = 1",
        "    import math\n    math.prod(sizes)",
        "text = 'eval, sys.modules and __code__'  # exec",
    ],
)
def test_ordinary_python_and_torch_are_usual(source):
    assert remarks_on(UNIT, {a_solution(): source}) == []


@pytest.mark.parametrize(
    "source",
    [
        "f(",
        "x = '\0'",
        "x = '\ud800'",
        "\u2028",
        "(" * 1_000,
        "-" * (MAX_CHARACTERS - 1) + "1",
        "1" + "+1" * 40_000,
        "x" + ".y" * 40_000,
        "x" * (MAX_CHARACTERS + 1),
    ],
    ids=lambda source: source[:12],
)
def test_what_cannot_be_read_is_said(source):
    name = a_solution()
    (solution,) = remarks_on(UNIT, {name: source})
    assert solution == f"{name} cannot be read as Python: if it does not run, it has no points."
    (added,) = remarks_on(UNIT, {}, source)
    assert added.startswith("An added cell (")


def test_many_names_and_long_ones_make_a_short_remark():
    many = "; ".join(f"import {'n' * 1_000}{n}" for n in range(90))
    (remark,) = remarks_on(UNIT, {a_solution(): many})
    assert len(remark) < 1_000


def test_what_given_cells_use_is_usual_in_their_notebook_only():
    given = "from course_utils.instruments import count_saved_bytes"
    inside = [unit for unit in UNITS if given in "".join(c.source for c in released(unit).cells)]
    assert {bool(remarks_on(unit, {}, given)) for unit in inside} == {False}
    assert remarks_on(UNITS[0], {}, given)


def test_what_an_exercise_forbids_is_named_and_what_it_allows_is_not():
    forbidden = "import torch; torch.utils.checkpoint.checkpoint(f)"
    (remark,) = remarks_on("05_activation_recomputation", {"u05-checkpoint": forbidden})
    assert "torch.utils.checkpoint.checkpoint" in remark
    assert remarks_on("05_activation_recomputation", {"u05-policy": forbidden}) == []
    allowed = "from course_utils.reference import token_loss"
    assert remarks_on("08_batch_size", {"u08-accumulate": allowed}) == []


@pytest.mark.parametrize("unit", sorted(set(UNIT_OF.values())))
def test_every_attack_that_a_person_must_see_has_a_remark(unit):
    told = [each.source for each in EVERY if each.is_told and UNIT_OF[each.exercise] == unit]
    assert len(remarks_on(unit, {}, *told)) == len(told)


def test_an_added_cell_is_named_by_its_beginning():
    assert remarks_on(UNIT, {}, "\n\n  import socket\n  socket.socket()") == [
        "An added cell ('import socket') uses socket, socket.socket, which no exercise needs."
    ]


def test_alarms_and_tampering_are_for_a_person():
    told = {"trouble": "tampered", "what": "autograder.checking.bounded_call.observe_within_limits"}
    sentence, _ = sentence_and_hint(told)
    tampered = Verdict(exercise="u00-x", points=0.0, max_points=1.0, sentence=sentence)
    honest = Verdict(exercise="u00-y", points=0.0, max_points=1.0, sentence="It returned None.")
    told = list(for_a_person([tampered, honest], [0, audit_hook.EXIT_CODE, -signal.SIGSYS]))
    assert told[0] == f"u00-x: {sentence}"
    assert [line.endswith("which ended its process.") for line in told] == [False, True, True]
    assert list(for_a_person([honest], [0, 1, -9])) == []


def test_an_answer_that_does_not_come_to_an_end_is_a_remark():
    def judged(**trouble):
        return Verdict(
            exercise="u00-x", points=0.0, max_points=1.0, sentence=sentence_and_hint(trouble)[0]
        )

    stopped = judged(trouble="stopped", seconds=10.0)
    waiting = judged(trouble="gone", how="it did not come back within 40 seconds")
    others = [
        judged(trouble="no function", what="a list"),
        judged(trouble="gone", how="its process ended"),
    ]
    wanted = "u00-x does not come to an end when it is called, and was stopped."
    assert [*on_stopped_answers([stopped, *others, waiting])] == [wanted, wanted]
