"""The table of the planner's errors: what is quick is computed anew, and its goals are met.

`tests/benchmarks/test_truth.py` computes all of it.
"""

import re

import numpy as np
import pytest

from course_utils.planner.truth.__main__ import TABLE, TREES, text
from course_utils.planner.truth.baselines import features
from course_utils.planner.truth.figures import Figures, Goal, read
from course_utils.planner.truth.measures import measures, rates_alone, simumax_memory
from course_utils.planner.truth.steps import LAYOUT, nearest_are_polled
from course_utils.records.sweeps import playbook_runs

COMMITTED = {(line.on, line.by): line for line in read(TABLE)}
NEAR = {"rel": 0.02, "abs": 0.05}


def numbers(figures):
    return list(vars(figures).values())


def assert_as_committed(lines):
    for line in lines:
        committed = COMMITTED[line.on, line.by]
        assert numbers(line.of_all) == pytest.approx(numbers(committed.of_all), **NEAR)
        assert numbers(line.of_class) == pytest.approx(numbers(committed.of_class), **NEAR)


@pytest.mark.parametrize("measure", [simumax_memory(), rates_alone("A100-PCIe-80")])
def test_what_is_quick_is_as_committed(measure):
    assert_as_committed(measure.lines())


def test_every_measure_stands_in_the_table_and_meets_its_goals_on_its_class():
    judged = {}
    for line in read(TABLE):
        judged.setdefault(line.on, line)
    assert list(judged) == [each.on for each in measures()]
    for measure in measures():
        for goal in measure.wanted():
            assert goal.is_met(judged[measure.on].of_class), f"{measure.on}: {goal}"


def test_the_model_beats_everything_beside_it_in_the_median_up_to_32_nodes():
    others = [*read(TABLE), *read(TREES)]
    for on in {line.on for line in others if re.search(r"seconds of a step, .* nodes?$", line.on)}:
        model = COMMITTED[on, "this model"]
        rows = [line for line in others if line.on == on and not line.by.startswith("this model")]
        assert len(rows) == 5
        assert all(model.of_all.median < line.of_all.median for line in rows)


def test_a_paragraph_shows_both_figures_and_each_goal():
    measure = simumax_memory()
    shown = list(text(measure, list(measure.lines())))
    assert "class: no context ranks" in shown[0]
    assert shown[1].count("|") == 1
    assert shown[-1].strip() == "goal: worst ≤ 0.7. Met on all rows: no; on the class: yes"


def test_figures_of_errors_that_have_no_answer():
    figures = Figures.of([0.01, -0.3, float("inf")])
    assert (figures.median, figures.second_worst) == (30.0, 30.0)
    assert figures.worst == float("inf")
    assert Goal("", "within_ten", 33).is_met(figures)
    assert not Goal("", "median", 29).is_met(figures)


def test_no_row_of_a_size_says_whether_rows_of_that_size_are_polled():
    runs = playbook_runs()
    seen = np.array([run.size != 8.86 for run in runs])
    polled = np.array([run.nodes > 16 and run.pipeline > 1 for run in runs])
    rule = nearest_are_polled(polled, seen)
    np.testing.assert_array_equal(rule, nearest_are_polled(polled & seen, seen))
    assert not rule[[run.pipeline == 1 for run in runs]].any()


def test_the_rule_sees_nodes_layout_and_passes_alone():
    run = playbook_runs()[0]
    numbers = [run.nodes, run.data, run.pipeline, run.tensor, run.zero_stage + 1]
    numbers += [run.micro_batch, run.num_micro_batches]
    assert features([run])[0, LAYOUT].tolist() == np.log2(numbers).tolist()
