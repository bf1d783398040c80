"""What the table's lines are called, and which of them tells how far a plan's time may be off.

>>> line = time_line(machine_of("H100-SXM", 8), Plan(data=4, tensor=2, zero_stage=1))
>>> line.on, line.of_class.ninety < 10
('Playbook, seconds of a step, 1 node', True)
"""

import functools
from collections.abc import Callable
from pathlib import Path

from course_utils.configs import LAST_STAGE, REACHED, Machine, Plan, machine_of
from course_utils.formulas.rates import NODE
from course_utils.planner.truth.figures import Line, read

TABLE = Path(__file__).with_name("table.csv")
MODEL, CARRIED = "this model", "constants of the Playbook"
TIME, MEMORY = "Playbook, seconds of a step", "Playbook, memory of rank 0"
FOUNDRY = "llm-foundry, tokens a second, 8 ×"
WIDE = "tensor ranks beyond a node"
MOST_NODES = 32

# By number of nodes and tensor ranks; of those that hold, the last is the narrowest.
KINDS: dict[str, Callable[[int, int], bool]] = {
    "64 nodes": lambda nodes, tensor: nodes > MOST_NODES,
    WIDE: lambda nodes, tensor: tensor > NODE,
    "at most 32 nodes": lambda nodes, tensor: nodes <= MOST_NODES,
    "at most 4 nodes": lambda nodes, tensor: nodes <= 4,
    "1 node": lambda nodes, tensor: nodes == 1,
}
CONSTANTS = ("attention", "elementwise", "launch_seconds", "turn_seconds", "hop_seconds")
FOUNDRY_LINES = {
    "A100-80": (f"{FOUNDRY} A100-80", MODEL),
    "H100-SXM": (f"{FOUNDRY} H100", CARRIED),
}


@functools.cache
def committed() -> dict[tuple[str, str], Line]:
    """The table's lines, by what and by whom."""
    return {(line.on, line.by): line for line in read(TABLE)}


def time_line(machine: Machine, plan: Plan) -> Line | None:
    """Figures of held-out rows like a plan's on a machine; None where no such rows were measured.

    llm-foundry's rows shard everything over one node and may recompute; the Playbook's are of H100s
    and shard at most the optimizer. Constants of one's own were held out by nobody.
    """
    known = machine.name in REACHED and machine_of(machine.name, machine.num_devices)
    if not known or any(getattr(machine, name) != getattr(known, name) for name in CONSTANTS):
        return None
    nodes = -(-plan.num_devices // NODE)
    if nodes == 1 and plan.zero_stage == LAST_STAGE and plan.data == plan.num_devices:
        name = FOUNDRY_LINES.get(machine.name)
        return committed()[name] if name else None
    if machine.name != "H100-SXM" or plan.zero_stage > 1 or plan.is_recomputed:
        return None
    fitting = [kind for kind, holds in KINDS.items() if holds(nodes, plan.tensor)]
    kind = WIDE if plan.tensor > NODE else fitting[-1]
    return committed()[f"{TIME}, {kind}", MODEL]


def memory_line() -> Line:
    """Figures of memory: all rows, and those without tensor ranks."""
    return committed()[MEMORY, MODEL]
