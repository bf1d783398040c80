"""The pictures of plans and of published rows say in words what they draw."""

from dataclasses import replace

from course_utils.configs import Plan, machine_of, preset
from course_utils.planner import PlanCosts
from course_utils.planner.calibrated import held_out
from course_utils.records import foundry_runs, one_node_runs
from course_utils.show import errors_by_size, plans_side_by_side, rates_over_devices
from tests.course_utils.show.texts import overlapping_texts

TASK = PlanCosts(preset("Llama-3.2-1B"), 4096, 256, machine_of("A100-80", 4))
PLANS = {"replicas": Plan(data=4, micro_batch=4), "tensor ranks": Plan(tensor=4)}


def test_errors_in_words():
    picture = errors_by_size(held_out(one_node_runs("A100-80")))
    assert picture.caption == (
        "59 rows, each predicted without its own model size: median error 4.1 %, 6 beyond 10 %, "
        "the worst 30b at 8,192 with +35 %."
    )
    assert overlapping_texts(picture.figure) == []


def test_rates_in_words():
    sizes = ("1b", "7b", "70b")
    runs = [run for run in foundry_runs() if run.device == "H100" and run.seq_len == 2048]
    found = [run for run in runs if run.precision == "amp_bf16" and run.model in sizes]
    picture = rates_over_devices(found)
    assert picture.caption == (
        "On 512 devices each one does 87 to 95 % of what it does at best; 1b loses most."
    )
    assert overlapping_texts(picture.figure) == []


def test_plans_in_words():
    picture = plans_side_by_side(TASK, PLANS)
    assert picture.caption == (
        "2 of 2 fit; the fastest of them is “replicas” with 12.98 s and 60.9 GB."
    )
    assert overlapping_texts(picture.figure) == []
    tiny = replace(TASK, machine=replace(TASK.machine, memory_bytes=10**9))
    assert plans_side_by_side(tiny, PLANS).caption == "None of these 2 plans fits."
