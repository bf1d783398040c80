"""What the units say of the running case is what the planner computes of it."""

import re

import pytest

from course_utils.configs import Plan, machine_of, preset
from course_utils.formulas.best_plan import best_plan
from course_utils.formulas.pace import pace
from course_utils.formulas.rates import NODE
from course_utils.formulas.serving import cache_bytes, served_bytes
from course_utils.planner import COURSE_FUNCTIONS, MISSION, QUANTITIES, PlanCosts, course_function
from course_utils.planner.measured_plans import clusters
from course_utils.planner.predicted import predictions
from course_utils.planner.quantities import gradients_rate, memory_of_device, messages_rate
from course_utils.planner.truth.kinds import time_line
from course_utils.planner.truth.steps import SETTLED_NODES
from tests.notebooks.filling import ROOT

COURSE = {name: course_function(name) for name in COURSE_FUNCTIONS}
VALUES = {each.label: each.value(COURSE, MISSION) for each in QUANTITIES}
LIMIT = f"{memory_of_device(MISSION):.0f}"
STATE = f"{VALUES['state on each device']:.0f}"
SHARDED = f"{VALUES['state, sharded']:.0f}"
DAYS, WAIT = VALUES["time"], VALUES["exchange if all devices share each layer"]
SEQUENCE_MS = 1e3 * WAIT * 86_400 / (MISSION.num_tokens / MISSION.seq_len)
COSTS = PlanCosts.of(MISSION)
SMALL = PlanCosts(preset("Llama-3.2-1B"), 4096, 256, machine_of("A100-80", 4))
CHOSEN = best_plan(COSTS.model, COSTS.num_sequences, COSTS.machine, COSTS)
ROOMY = Plan(data=4, tensor=2, zero_stage=1)


def pass_seconds():
    """Of one pass alone: what a step of 48 passes more takes, each with as many tokens less."""
    seconds = [SMALL.seconds_of(Plan(data=4, micro_batch=b)) for b in (1, 4)]
    return (seconds[0] - seconds[1]) / (64 - 16)


def conversations(num_bytes):
    """Of 8,192 tokens beside the weights of Llama-3-8B in bf16."""
    return (num_bytes - served_bytes(MISSION.model, 1, 1)) // cache_bytes(MISSION.model, 1, 8192, 2)


def launch_of_the_unit():
    """Seconds of a layer, from the three micro-batches of 1.34B that the unit fits."""
    rows = [
        (each.run.num_layers, each.work_seconds, each.run.step_seconds / each.run.num_micro_batches)
        for each in predictions("playbook_runs")
        if (each.run.model, each.run.tensor, each.run.pipeline) == ("1.34", 8, 1)
        if each.run.nodes == 2 and each.run.zero_stage == 0 and each.run.num_micro_batches >= 8
        if each.run.micro_batch in (1, 2, 4)
    ]
    return pace(rows, 1, 0)["launch"]


SENTENCES = {
    "03": [f"Its limit, {LIMIT} GB, is what the driver gives of “80 GB”, 79.1 GiB, less 2 GB"],
    "09": [
        f"at the {gradients_rate(MISSION) / 1e9:.0f} GB/s of its node "
        f"{VALUES['tokens that hide the exchange']:.0f} suffice",
        f"all {STATE} GB of Llama-3-8B's state",
        "a toy: one adapter",
    ],
    "10": [
        f"{STATE} GB of state on each device, and {LIMIT} fit",
        f"keeps {SHARDED} GB of state on each device in stage 3, of {LIMIT}",
    ],
    "11": [
        f"All-gathers of 67 MB reach {messages_rate(MISSION) / 1e9:.0f} (and reduce-scatters 292): "
        f"{SEQUENCE_MS:.0f} ms, **{WAIT:.1f} days**",
        f"wait {WAIT:.1f} days for their links, on top of {DAYS:.0f} days of computing: "
        f"{DAYS + WAIT:.0f} of {MISSION.num_days} days are gone",
        f"needs {STATE} GB of weights",
        "one adapter between nodes",
    ],
    "12": [
        f"{STATE} GB of state where {LIMIT} fit",
        f"fits in {LIMIT} GB: eight stages cut evenly, {SHARDED} GB of state",
        f"for {VALUES['idle in it']:.1f} % of bubble",
        f"the first, has {COSTS.bytes_by_part(Plan(pipeline=8))['state'] / 1e9:.1f} GB of state",
    ],
    "13": [
        f"room for {conversations(80 * 10**9)} conversations of 8,192 tokens on one H100 of 80 GB",
        f"gives, {LIMIT} GB: {conversations(MISSION.machine.memory_bytes)})",
    ],
    "14": [
        f"{1e3 * pass_seconds():.1f} ms for 1B on an A100",
        f"Your {1e3 * launch_of_the_unit():.1f} ms come from three micro-batches",
        f"a `Machine` has {1e3 * MISSION.machine.launch_seconds:.1f}, fitted to "
        f"whole steps on up to {SETTLED_NODES} nodes",
        f"{100 * (COSTS.seconds_of(ROOMY) / COSTS.seconds_of(CHOSEN) - 1):.1f} % faster, where "
        f"nine in ten plans of one node are predicted within "
        f"{time_line(MISSION.machine, CHOSEN).of_class.ninety:.0f} %, and leaves "
        f"{(MISSION.machine.memory_bytes - COSTS.bytes_of(CHOSEN)) / 1e9:.1f} GB",
        f"leaves {(MISSION.machine.memory_bytes - COSTS.bytes_of(ROOMY)) / 1e9:.0f} for what",
    ],
}


@pytest.mark.parametrize(
    ("unit", "sentence"), [(unit, each) for unit, those in SENTENCES.items() for each in those]
)
def test_a_unit_tells_what_the_planner_computes(unit, sentence):
    (master,) = ROOT.glob(f"solutions/{unit}_*/{unit}_*.py")
    assert re.sub(r"\s+", " ", sentence) in master.read_text(encoding="utf-8")


def replicas_first(plan):
    """The unit's second rule."""
    return plan.tensor * plan.pipeline, plan.pipeline, -plan.micro_batch, -plan.zero_stage


def test_replicas_first_is_as_good_up_to_eight_nodes_and_no_further():
    """The sentence of unit 14: to ten per cent the same but for 80B, then 11 to 110 %."""
    losses = {
        (each.size, each.nodes): 100 * each.regret(min(each.plans, key=replicas_first))
        for each in clusters()
        if each.nodes <= 32
    }
    assert len(losses) == 21
    few = [loss for (size, nodes), loss in losses.items() if nodes <= 8 and size != "80.0"]
    many = [loss for (_, nodes), loss in losses.items() if nodes >= 16]
    assert max(few) < 10
    assert f"{min(many):.0f} to {max(many):.0f}" == "11 to 110"


def test_the_running_case_is_one_node():
    assert MISSION.num_devices == NODE
