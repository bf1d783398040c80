"""What forking a loaded process could do to a grade: threads, environment, random numbers."""

import nbformat
import pytest

from tests.autograder.grading.attacks.test_attacks import HONEST, graded
from tests.notebooks.filling import solved

LOOK = """
import os, random, threading
import numpy, torch
print(torch.get_num_threads(), os.environ["OMP_NUM_THREADS"], threading.active_count())
print(random.random(), numpy.random.rand(), torch.rand(1).item())
print(sorted(os.environ))
"""
PARALLEL = """
import torch
torch.set_num_threads(2)
x = torch.rand(600, 600, requires_grad=True)
(x @ x).sin().sum().backward()
print("done", x.grad.shape)
"""


def shown(source):
    """What an added cell prints, and the points of the honest answers around it."""
    outcome = graded(HONEST, solved(HONEST), list(solved(HONEST)), added=[source])
    cells = nbformat.reads(outcome.notebook, as_version=4).cells
    outputs = next(cell.outputs for cell in cells if cell.source == source)
    points = sum(verdict.points for verdict in outcome.result.verdicts)
    return "".join(each.get("text", "") for each in outputs), points


@pytest.fixture(scope="module")
def first():
    return shown(LOOK)


def test_one_thread_and_an_environment_of_the_course_alone(first):
    threads, _, environment = first[0].splitlines()
    assert threads == "1 1 1"
    assert "GRADING_SEED" not in environment


def test_every_submission_begins_with_the_same_random_numbers(first):
    shown("import random, numpy, torch; random.random(); numpy.random.rand(); torch.rand(1)")
    assert shown(LOOK) == first


def test_parallel_region_works_in_a_forked_process():
    for _ in range(2):
        assert shown(PARALLEL) == ("done torch.Size([600, 600])\n", 6.0)
