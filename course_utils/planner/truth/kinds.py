"""What the table's lines are called, and which of them tells how far a plan's time may be off.

>>> line = time_line(machine_of("H100-SXM", 8), Plan(data=4, tensor=2, zero_stage=1))
>>> line.on, line.of_class.ninety < 10
('Playbook, seconds of a step, 1 node', True)
"""

import functools
from collections.abc import Callable, Iterator
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
DIFFERS = {"num_devices", "memory_bytes", "usd_per_device_hour"}  # of equal machines
CONSTANTS = (
    "attention",
    "elementwise",
    "launch_seconds",
    "turn_seconds",
    "hop_seconds",
    "spread_ratio",
)
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
    and shard at most the optimizer. Constants of one's own were held out by nobody, nor were other
    rates; devices may have less memory or more.
    """
    if changes(machine) != []:
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


def changes(machine: Machine) -> list[str] | None:
    """What of a machine is not as measured; None for a device that nobody measured."""
    if machine.name not in REACHED:
        return None
    known = machine_of(machine.name, machine.num_devices)
    names = [name for name in vars(known) if name not in DIFFERS]
    return [name for name in names if getattr(machine, name) != getattr(known, name)]


def why_no_line(machine: Machine, plan: Plan) -> str:
    """Why a plan on a machine has no error bar, and which kinds near it have one."""
    changed = changes(machine)
    if changed is None:
        why = f"no error bar: this machine is not the measured one, nobody measured {machine.name}"
    elif changed and set(changed) <= set(CONSTANTS):
        why = (
            f"no error bar: {' and '.join(changed)} is a constant of one's own, held out by nobody"
        )
    elif changed:
        why = f"no error bar: this machine is not the measured one ({', '.join(changed)})"
    else:
        why = "no error bar: no run of this kind was held out"
    return f"{why}; nearest: {'; '.join(_nearest(machine, plan))}"


def _nearest(machine: Machine, plan: Plan) -> Iterator[str]:
    """The kinds that were held out on the same device, else on an A100."""
    name = machine.name if machine.name in FOUNDRY_LINES else "A100-80"
    kinds = {f"{name}, one node, ZeRO {LAST_STAGE}": Plan(data=NODE, zero_stage=LAST_STAGE)}
    if name == "H100-SXM":
        nodes = -(-plan.num_devices // NODE)
        which = "one node" if nodes == 1 else f"{nodes} nodes"
        layout = Plan(data=plan.data, tensor=plan.tensor, pipeline=plan.pipeline)
        kinds[f"{name}, {which}, ZeRO 0 or 1, layers kept"] = layout
    for said, each in kinds.items():
        line = time_line(machine_of(name, each.num_devices), each)
        if line is not None:
            yield f"{said}: nine in ten within {line.of_class.ninety:.0f} %"


def constants_in_words(machine: Machine) -> str:
    """Whose constants a machine has, and where they hold."""
    changed = changes(machine)
    if changed is None:
        return f"constants as given for {machine.name}, which nobody measured"
    if changed:
        return (
            f"{', '.join(changed)} of one's own; a constant from one step holds for sequences of "
            "that length, elsewhere it is uncertain"
        )
    measured = f"constants of measured software on {machine.name}"
    if machine.name == "H100-SXM":
        return measured
    return (
        f"{measured}: attention and elementwise of llm-foundry's in 2023, launch_seconds and "
        "spread_ratio of nanotron's on H100s"
    )


def memory_line() -> Line:
    """Figures of memory: all rows, and those without tensor ranks."""
    return committed()[MEMORY, MODEL]
