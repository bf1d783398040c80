"""The whole table of the planner's errors, computed anew: `make acceptance`."""

import csv

import numpy as np
import pytest

from course_utils.formulas.cluster_step import pace_of
from course_utils.planner.predicted import TABLE
from course_utils.planner.rates import H100
from course_utils.planner.truth import predict
from course_utils.planner.truth.measured import playbook
from course_utils.planner.truth.measures import measures
from course_utils.planner.truth.steps import fitted
from tests.course_utils.planner.test_truth import COMMITTED, assert_as_committed


def test_the_table_is_what_the_command_computes():
    lines = [line for measure in measures() for line in measure.lines()]
    assert [(line.on, line.by) for line in lines] == list(COMMITTED)
    assert_as_committed(lines)


def test_machines_carry_the_constants_of_all_of_the_playbooks_rows():
    pace, _ = fitted(np.ones(len(playbook()), dtype=bool))
    assert list(pace_of(H100)) == pytest.approx(list(pace), rel=5e-3)


def test_what_unit_14_holds_against_the_clock_is_predicted_without_its_size():
    with TABLE.open(newline="", encoding="utf-8") as file:
        _, *committed = csv.reader(file)
    _, *computed = predict.lines(predict.held_out_paces())
    for line, wanted in zip(computed, committed, strict=True):
        assert line[:2] == wanted[:2]
        assert [float(each) for each in line[2:]] == pytest.approx(
            [float(each) for each in wanted[2:]], rel=1e-2
        )
