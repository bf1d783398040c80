"""The table of the planner's errors: what is quick is computed anew, and its goals are met.

`tests/benchmarks/test_truth.py` computes all of it.
"""

import re

import numpy as np
import pytest

from course_utils.planner.rates import simumax_rates
from course_utils.planner.truth.__main__ import TABLE, TREES, text
from course_utils.planner.truth.baselines import LAYOUT, features
from course_utils.planner.truth.figures import Figures, is_met, read
from course_utils.planner.truth.measured import playbook
from course_utils.planner.truth.measures import GOALS, rates_alone, simumax_memory
from course_utils.planner.truth.steps import nearest_are_polled
from course_utils.records.sweeps import runs

COMMITTED = {(line.on, line.by): line for line in read(TABLE)}
NEAR = {"rel": 0.02, "abs": 0.05}


def numbers(figures):
    return list(vars(figures).values())


def assert_as_committed(lines):
    for line in lines:
        committed = COMMITTED[line.on, line.by]
        assert numbers(line.of_all) == pytest.approx(numbers(committed.of_all), **NEAR)
        assert numbers(line.of_class) == pytest.approx(numbers(committed.of_class), **NEAR)


def a100():
    return rates_alone("A100-PCIe-80", runs("simumax_a100_pcie"), simumax_rates("A100-PCIe-80"))


@pytest.mark.parametrize("measure", [simumax_memory, a100])
def test_what_is_quick_is_as_committed(measure):
    assert_as_committed(measure().lines())


@pytest.mark.parametrize("on", GOALS)
def test_every_goal_is_met_on_its_class(on):
    judged = next(line for line in read(TABLE) if line.on == on)
    for figure, percent in GOALS[on].items():
        assert is_met(figure, percent, judged.of_class), f"{figure}: {percent}"


def test_the_model_beats_everything_beside_it_in_the_median_up_to_32_nodes():
    others = [*read(TABLE), *read(TREES)]
    for on in {line.on for line in others if re.search(r"seconds of a step, .* nodes?$", line.on)}:
        model = COMMITTED[on, "this model"]
        rows = [line for line in others if line.on == on and not line.by.startswith("this model")]
        assert len(rows) == 4
        assert all(model.of_all.median < line.of_all.median for line in rows)


def test_a_paragraph_shows_both_figures_and_each_goal():
    measure = simumax_memory()
    shown = list(text(measure, measure.lines()))
    assert "class: no context ranks" in shown[0]
    assert shown[1].count("|") == 1
    assert shown[-1].strip() == "goal: worst ≤ 0.7. All rows: no; class: yes"


def test_figures_of_errors_that_have_no_answer():
    figures = Figures.of([0.01, -0.3, float("inf")])
    assert (figures.median, figures.second_worst) == (30.0, 30.0)
    assert figures.worst == float("inf")
    assert is_met("within_ten", 33, figures)
    assert not is_met("median", 29, figures)


def test_no_row_of_a_size_says_whether_rows_of_that_size_are_polled():
    seen = np.array([run.model != "8.86" for run in playbook()])
    polled = np.array([run.nodes > 16 and run.pipeline > 1 for run in playbook()])
    rule = nearest_are_polled(polled, seen)
    np.testing.assert_array_equal(rule, nearest_are_polled(polled & seen, seen))
    assert not rule[[run.pipeline == 1 for run in playbook()]].any()


def test_the_rule_sees_nodes_layout_and_passes_alone():
    run = playbook()[0]
    numbers = [run.nodes, run.data, run.pipeline, run.tensor, run.zero_stage]
    numbers += [run.micro_batch, run.num_micro_batches]
    assert features([run], LAYOUT)[0].tolist() == np.log2(numbers).tolist()
