"""A mistake in an honest submission costs the answer that it is in, and no other point."""

import nbformat
import pytest

from autograder.checking.hint_choice import REMEMBERS
from autograder.grading.run import submission
from tests.autograder.grading.attacks.bank import AVAILABILITY, FORMULA
from tests.autograder.grading.attacks.test_attacks import FULL, HONEST, SEEDS, graded
from tests.autograder.grading.handed_in import packed, plain
from tests.notebooks.filling import released, solved

POINTS = 2.0
COSTLY = (
    "endless answer",
    "endless and deaf",
    "deaf sleep",
    "signals ignored",
    "leaves in the answer",
    "leaves when called",
    "exit when called",
    "segmentation fault",
    "segmentation fault when called",
    "memory",
    "lines of megabytes",
    "many lines",
    "pages of 100 megabytes",
)
WARNINGS = {
    "by warnings": "import warnings; warnings.warn('this is old')",
    "by print": "import sys; print('careful', file=sys.stderr)",
    "by torch": "import torch; float(torch.ones(1, requires_grad=True))",
    "under Python": "import os; os.write(2, b'careful')",
}
RIGHT = """
import math

def tensor_bytes(shape, element_bytes):
    {warning}
    return math.prod(shape) * element_bytes

{warning}
"""


def points(outcome) -> dict[str, float]:
    return {verdict.exercise: verdict.points for verdict in outcome.result.verdicts}


@pytest.mark.parametrize("name", COSTLY)
def test_an_answer_that_ends_its_process_costs_itself_alone(name):
    """The same code in the cell of one exercise, and everything else solved."""
    (bad,) = (attack for attack in AVAILABILITY if attack.name == name)
    answers = solved(HONEST) | {FORMULA: bad.source}
    got = points(graded(HONEST, answers, list(answers)))
    assert got.pop(FORMULA) == 0
    assert sum(got.values()) == FULL - POINTS


@pytest.mark.parametrize("name", WARNINGS)
def test_a_right_answer_that_warns_keeps_its_points(name):
    answers = solved(HONEST) | {FORMULA: RIGHT.format(warning=WARNINGS[name])}
    assert sum(points(graded(HONEST, answers, list(answers))).values()) == FULL


REMEMBERING = """
import math

known = {}

def tensor_bytes(shape, element_bytes):
    known.setdefault(shape, math.prod(shape) * element_bytes)
    return known[shape]
"""


def test_an_answer_that_remembers_is_told_so_in_the_sandbox_too():
    answers = solved(HONEST) | {FORMULA: REMEMBERING}
    verdicts = graded(HONEST, answers, list(answers)).result.verdicts
    (hint,) = (each.hint for each in verdicts if each.exercise == FORMULA)
    assert hint == REMEMBERS


def with_long_outputs() -> bytes:
    """A file of 100 megabytes."""
    content = plain()
    code_cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    text = "x" * (100 * 10**6 // len(code_cells))
    for cell in code_cells:
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]
    return packed(content)


def test_a_file_with_long_outputs_is_graded_whole():
    """That all others become the release with its answers is tested in `test_intake_merge`."""
    outcome = submission.grade(
        submission.Submission(
            unit=HONEST,
            student="ada",
            raw=with_long_outputs(),
            release=nbformat.writes(released(HONEST)),
            seeds=SEEDS,
        )
    )
    assert sum(points(outcome).values()) == FULL
    assert outcome.result.needs_human == ()


TRIED_OUT = """
from course_utils.instruments import count_flops, time_call
flops = count_flops(lambda: 1).forward_flops
print(flops / 2)

def tensor_bytes(shape, element_bytes):
    import math
    return math.prod(shape) * element_bytes
"""


def test_an_experiment_with_what_is_not_there_costs_no_answer():
    """The course's instruments are gone where answers are observed; what is below still counts."""
    answers = solved(HONEST) | {FORMULA: TRIED_OUT}
    assert sum(points(graded(HONEST, answers, list(answers))).values()) == FULL
