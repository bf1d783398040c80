"""What the model says of the Playbook's layouts, with constants of other sizes."""

import statistics

import pytest

from course_utils.formulas.best_plan import best_plan
from course_utils.formulas.first_rank import first_rank_bytes
from course_utils.planner.first_rank import first_rank_of
from course_utils.planner.measured_plans import clusters
from course_utils.planner.predicted import predictions
from course_utils.records.sweeps import runs

RAN = predictions("playbook_runs")
GIB = 2**30


def test_one_node_is_predicted_within_three_per_cent_in_the_median():
    errors = [
        abs(each.step_seconds / each.run.step_seconds - 1) for each in RAN if each.run.nodes == 1
    ]
    assert statistics.median(errors) < 0.035


def test_launches_of_other_sizes_are_four_and_a_half_milliseconds_a_layer():
    for each in RAN:
        if each.run.pipeline == 1 and each.run.tensor <= 8:
            assert each.launch_seconds / each.run.num_layers == pytest.approx(4.5e-3, rel=0.02)


def test_between_both_kinds_of_layouts_lies_a_gap():
    extra = [
        each.extra_seconds
        for each in RAN
        if each.run.tensor <= 8
        and each.run.nodes <= 32
        and each.run.num_micro_batches >= 8
        and each.run.num_sequences == 256
        and each.run.pipeline > 1
    ]
    assert not [each for each in extra if 0.1 < each < 0.3]
    assert sum(each > 0.3 for each in extra) > 100


def gib(run):
    """Bytes of the first rank by part, in GiB."""
    parts = first_rank_bytes(*first_rank_of(run), run.num_micro_batches)
    return {name: each / GIB for name, each in parts.items()}


def test_the_first_rank_holds_at_least_that_and_without_tensor_ranks_hardly_more():
    above, errors = 0, []
    for run in runs("playbook_runs"):
        parts = gib(run)
        whole = sum(parts.values())
        above += whole - parts["added"] > 1.02 * run.first_rank_gib
        if run.tensor == 1:
            errors.append(abs(whole / run.first_rank_gib - 1))
    assert above <= 5
    assert statistics.median(errors) < 0.03
    assert sum(each <= 0.1 for each in errors) > 0.88 * len(errors)


def test_a_planner_is_near_the_best_measured_plan_up_to_32_nodes():
    few = [each for each in clusters() if each.nodes <= 32]
    regrets = [each.regret(best_plan(each.model, 256, each.machine, each.costs)) for each in few]
    assert len(regrets) == 21
    assert sum(regret <= 0.1 for regret in regrets) == 20
