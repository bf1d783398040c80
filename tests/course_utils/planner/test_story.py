"""What the units say of the running case is what the planner computes of it."""

import re

import pytest

from course_utils.formulas.rates import NODE
from course_utils.planner import COURSE_FUNCTIONS, MISSION, QUANTITIES, course_function
from course_utils.planner.quantities import gradients_rate, memory_of_device, messages_rate
from tests.notebooks.filling import ROOT

COURSE = {name: course_function(name) for name in COURSE_FUNCTIONS}
VALUES = {each.label: each.value(COURSE, MISSION) for each in QUANTITIES}
LIMIT = f"{memory_of_device(MISSION):.0f}"
STATE = f"{VALUES['state on each device']:.0f}"
SHARDED = f"{VALUES['state, sharded']:.0f}"
DAYS, WAIT = VALUES["time"], VALUES["exchange if all devices share each layer"]
SEQUENCE_MS = 1e3 * WAIT * 86_400 / (MISSION.num_tokens / MISSION.seq_len)
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
        f"At the {messages_rate(MISSION) / 1e9:.0f} GB/s that messages of this size reach, that "
        f"is {SEQUENCE_MS:.0f} ms for every sequence, {WAIT:.1f} days",
        f"wait {WAIT:.1f} days for their links, on top of {DAYS:.0f} days of computing: "
        f"{DAYS + WAIT:.0f} of {MISSION.num_days} days are gone",
        f"needs {STATE} GB of weights",
        "one adapter between nodes",
    ],
    "12": [
        f"{STATE} GB of state where {LIMIT} fit",
        f"fits in {LIMIT} GB: eight stages, {SHARDED} GB of state",
        f"for {VALUES['idle in it']:.1f} % of bubble",
    ],
}


@pytest.mark.parametrize(
    ("unit", "sentence"), [(unit, each) for unit, those in SENTENCES.items() for each in those]
)
def test_a_unit_tells_what_the_planner_computes(unit, sentence):
    (master,) = ROOT.glob(f"solutions/{unit}_*/{unit}_*.py")
    assert re.sub(r"\s+", " ", sentence) in master.read_text(encoding="utf-8")


def test_the_running_case_is_one_node():
    assert MISSION.num_devices == NODE
