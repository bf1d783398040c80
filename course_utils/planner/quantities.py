"""What a plan says, and which functions it takes to say it.

Each quantity is made of functions by their names, so that the course's and a student's own can be
put in: both take and give the same.
"""

import functools
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from course_utils.configs import BF16_BYTES, LAST_STAGE, NoSuchPlan, Plan
from course_utils.formulas.best_plan import plans
from course_utils.formulas.parameters import parameters_by_part
from course_utils.formulas.rates import Group
from course_utils.formulas.roofline import training_products
from course_utils.formulas.step import Step
from course_utils.planner.costs import PlanCosts, Searched, refuse
from course_utils.planner.mission import HOURS_PER_DAY, Mission
from course_utils.planner.rates import rates_of
from course_utils.planner.truth.kinds import constants_in_words

Functions = Mapping[str, Callable[..., Any]]

# Where the course has the functions of a plan: each is imported when it is asked for.
COURSE_FUNCTIONS = {
    "training_flops_per_token": "training_flops.training_flops_per_token",
    "parameters": "parameters.parameters_by_part",
    "state_bytes": "memory.state_bytes_of_recipe",
    "llama_layer_bytes": "activations.llama_layer_bytes",
    "sequence_bytes": "activations.sequence_bytes",
    "product_bytes": "roofline.product_bytes",
    "roofline_seconds": "roofline.roofline_seconds",
    "segment_bytes": "recomputation.segment_bytes",
    "configuration": "batch_size.configuration",
    "min_tokens": "communication.min_hiding_tokens",
    "tensor_parallel_bytes": "communication.tensor_parallel_bytes",
    "sharded_state_bytes": "sharding.sharded_state_bytes",
    "pipeline_costs": "pipeline.pipeline_costs",
    "best_plan": "best_plan.best_plan",
}
SECONDS_PER_HOUR = 3600
CONVENTION = "attention in full, not the half that a causal mask leaves"


def course_function(name: str) -> Callable[..., Any]:
    """The course's own function for a plan."""
    module, _, function = COURSE_FUNCTIONS[name].rpartition(".")
    found: Callable[..., Any] = getattr(
        importlib.import_module(f"course_utils.formulas.{module}"), function
    )
    return found


def work(functions: Functions, mission: Mission) -> float:
    """FLOPs of the whole run, in units of 10²¹."""
    per_token: int = functions["training_flops_per_token"](mission.model, mission.seq_len)
    return per_token * mission.num_tokens / 10**21


def device_hours(functions: Functions, mission: Mission) -> float:
    """Hours of all devices together."""
    return work(functions, mission) * 10**21 / mission.flops_per_second / SECONDS_PER_HOUR


def days(functions: Functions, mission: Mission) -> float:
    """Days of the run on all devices."""
    return device_hours(functions, mission) / mission.num_devices / HOURS_PER_DAY


def days_at_the_roof(functions: Functions, mission: Mission) -> float:
    """Days of the matrix products alone, each as fast as compute or memory allows."""
    operations = [
        (times * 2 * m * k * n, times * functions["product_bytes"](m, k, n, BF16_BYTES))
        for m, k, n, times in training_products(mission.model, mission.seq_len)
    ]
    seconds: float = functions["roofline_seconds"](
        operations,
        mission.machine.peak_flops_per_second,
        mission.machine.memory_bytes_per_second,
    )
    num_sequences = mission.num_tokens / mission.seq_len / mission.num_devices
    return num_sequences * seconds / SECONDS_PER_HOUR / HOURS_PER_DAY


def cost(functions: Functions, mission: Mission) -> float:
    """USD for all device hours."""
    return device_hours(functions, mission) * mission.usd_per_device_hour


def num_params(functions: Functions, mission: Mission) -> int:
    """Parameters of the model."""
    return sum(functions["parameters"](mission.model).values())


def layer_bytes(functions: Functions, mission: Mission) -> int:
    """Bytes that one layer keeps for one sequence."""
    parts = functions["llama_layer_bytes"](mission.model, 1, mission.seq_len, BF16_BYTES)
    return sum(parts.values())


def state(functions: Functions, mission: Mission) -> float:
    """GB of weights, gradients and optimizer states on each device, nothing sharded."""
    parts = functions["state_bytes"](num_params(functions, mission), mission.recipe)
    return math.fsum(parts.values()) / 10**9


def sharded_state(functions: Functions, mission: Mission) -> float:
    """GB of weights, gradients and optimizer states on each device, everything sharded."""
    parts = functions["sharded_state_bytes"](
        num_params(functions, mission), mission.num_devices, LAST_STAGE, mission.recipe
    )
    return math.fsum(parts.values()) / 10**9


def kept_by_sequence(functions: Functions, mission: Mission) -> float:
    """GB that one sequence keeps for backward, nothing recomputed."""
    layer = layer_bytes(functions, mission)
    kept: int = functions["sequence_bytes"](mission.model, mission.seq_len, layer)
    return kept / 10**9


def memory(functions: Functions, mission: Mission) -> float:
    """GB of the state and of what one sequence keeps for backward, nothing recomputed."""
    return state(functions, mission) + kept_by_sequence(functions, mission)


def sharded_memory(functions: Functions, mission: Mission) -> float:
    """As `memory`, with everything sharded; gathered weights are left out."""
    return sharded_state(functions, mission) + kept_by_sequence(functions, mission)


def memory_recomputed(functions: Functions, mission: Mission) -> float:
    """GB of the state and of one sequence, if each layer keeps its input and runs again.

    The loss comes before the first layer runs again, so the larger of the two moments counts.
    """
    boundary_bytes = BF16_BYTES * mission.seq_len * mission.model.hidden_size
    layers = functions["segment_bytes"](
        mission.model.num_layers, 1, boundary_bytes, layer_bytes(functions, mission)
    )
    beside_layers: int = functions["sequence_bytes"](mission.model, mission.seq_len, 0)
    kept: int = max(layers["after_forward"] + beside_layers, layers["peak"])
    return state(functions, mission) + kept / 10**9


def passes(functions: Functions, mission: Mission) -> float:
    """Forward and backward passes of each device in one step, one sequence in each."""
    if mission.sequences_per_step < mission.num_devices:
        raise ValueError(
            f"{mission.sequences_per_step} sequences of a step leave some of "
            f"{mission.num_devices} devices without one; take more tokens_per_step"
        )
    run = functions["configuration"](
        mission.tokens_per_step, mission.seq_len, mission.num_devices, 1
    )
    return float(run["num_micro_batches"])


def link_rate(mission: Mission, name: str, num_bytes: int) -> int:
    """Bytes that each device sends in a second of a collective of this size, if all take part."""
    n = mission.num_devices
    if n == 1:
        return round(mission.machine.link_bytes_per_second)
    seconds = rates_of(mission.machine).collective(name, num_bytes, Group(n))
    return round((n - 1) / n * (2 if name == "all_reduce" else 1) * num_bytes / seconds)


def gradients_rate(mission: Mission) -> int:
    """What each device sends of all gradients in a second."""
    num_params = sum(parameters_by_part(mission.model).values())
    return link_rate(mission, "all_reduce", BF16_BYTES * num_params)


def messages_rate(mission: Mission) -> int:
    """What each device sends in a second of one hidden state, which tensor ranks gather."""
    hidden = BF16_BYTES * mission.seq_len * mission.model.hidden_size
    return link_rate(mission, "all_gather", hidden)


def hiding_tokens(functions: Functions, mission: Mission) -> float:
    """Fewest tokens on each device behind whose backward pass the gradients' exchange hides."""
    return float(
        functions["min_tokens"](
            num_params(functions, mission),
            mission.num_devices,
            BF16_BYTES,
            gradients_rate(mission),
            int(mission.flops_per_second),
        )
    )


def exchange_of_shared_layers(functions: Functions, mission: Mission) -> float:
    """Days in which devices that share every layer wait for their links, nothing of it hidden."""
    sent = functions["tensor_parallel_bytes"](
        mission.seq_len, mission.model.hidden_size, mission.num_devices, BF16_BYTES
    )
    bytes_per_sequence: int = mission.model.num_layers * sent["tensor"]
    num_sequences = mission.num_tokens / mission.seq_len
    seconds = num_sequences * bytes_per_sequence / messages_rate(mission)
    return seconds / SECONDS_PER_HOUR / HOURS_PER_DAY


def costs_of_first_stage(functions: Functions, mission: Mission) -> dict[str, int]:
    """What a pipeline over all devices costs, B taking twice as long as F."""
    num_sequences = mission.tokens_per_step // mission.seq_len
    costs: dict[str, int] = functions["pipeline_costs"](mission.num_devices, num_sequences, 1, 2, 0)
    return costs


def first_stage(functions: Functions, mission: Mission) -> float:
    """GB of the first stage, if each device is a stage of a pipeline: its state, its layers' share.

    With 1F1B; the embedding and the head are counted as if they were cut as well.
    """
    costs = costs_of_first_stage(functions, mission)
    layers = mission.model.num_layers / mission.num_devices
    kept = costs["1f1b"] * layers * layer_bytes(functions, mission)
    return state(functions, mission) / mission.num_devices + float(kept) / 10**9


def bubble(functions: Functions, mission: Mission) -> float:
    """Per cent of a step in which a stage of this pipeline is idle."""
    costs = costs_of_first_stage(functions, mission)
    return float(100 * costs["idle_seconds"] / costs["seconds"])


def fastest(functions: Functions, mission: Mission) -> Plan:
    """The plan that is chosen.

    Raises:
        ValueError: If none fits, or the choice is no plan for this machine.
    """
    costs = PlanCosts.of(mission)
    Step(costs.model, costs.seq_len, costs.num_sequences, Plan())  # refuses what no run checks
    return _searched(functions["best_plan"], costs)


@functools.lru_cache(maxsize=32)
def _searched(best_plan: Callable[..., object], costs: PlanCosts) -> Plan:
    """Memory, time and cost ask for the same plan: it is searched once."""
    chosen = best_plan(costs.model, costs.num_sequences, costs.machine, Searched(**vars(costs)))
    if not isinstance(chosen, Plan):
        raise ValueError(f"best_plan gave {chosen!r} where a Plan was wanted, or a ValueError")
    if chosen not in set(plans(costs.model, costs.num_sequences, costs.machine)):
        raise ValueError(str(NoSuchPlan(chosen)))
    refuse(chosen, costs)
    return chosen


def memory_of_fastest(functions: Functions, mission: Mission) -> float:
    """GB that the fastest plan takes of each device."""
    return PlanCosts.of(mission).bytes_of(fastest(functions, mission)) / 10**9


def days_of_fastest(functions: Functions, mission: Mission) -> float:
    """Days of the run with the fastest plan."""
    return mission.days(PlanCosts.of(mission).seconds_of(fastest(functions, mission)))


def cost_of_fastest(functions: Functions, mission: Mission) -> float:
    """USD for all device hours of the fastest plan."""
    return mission.usd(days_of_fastest(functions, mission))


def memory_of_device(mission: Mission) -> float:
    """GB of a device that tensors may fill."""
    return mission.machine.memory_bytes / 10**9


def _price(mission: Mission) -> str:
    return f"{mission.usd_per_device_hour:.2f} USD per device hour"


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One line of a plan.

    Attributes:
        label: What it is, in words.
        unit: Of the number.
        needs: Names of the functions that it takes.
        value: From functions and mission to the number.
        limit: What the mission allows of it, if it allows not all.
        guess: What is assumed and not computed, in words.
    """

    label: str
    unit: str
    needs: tuple[str, ...]
    value: Callable[[Functions, Mission], float]
    limit: Callable[[Mission], float] | None = None
    guess: Callable[[Mission], str] = lambda _: ""


FLOPS = ("training_flops_per_token",)
STATE = ("parameters", "state_bytes")
SHARDED = ("parameters", "sharded_state_bytes")
SEQUENCE = ("llama_layer_bytes", "sequence_bytes")
FASTEST = ("best_plan",)
QUANTITIES = (
    Quantity(label="work", unit="·10²¹ FLOPs", needs=FLOPS, value=work, guess=lambda _: CONVENTION),
    Quantity(
        label="time",
        unit="days",
        needs=FLOPS,
        value=days,
        limit=lambda mission: mission.num_days,
        guess=lambda mission: f"{mission.utilisation:.0%} of the peak, whatever the plan",
    ),
    Quantity(
        label="time at the roof",
        unit="days",
        needs=("product_bytes", "roofline_seconds"),
        value=days_at_the_roof,
        limit=lambda mission: mission.num_days,
        guess=lambda _: "products alone, all scores of attention in memory",
    ),
    Quantity(label="cost", unit="USD", needs=FLOPS, value=cost, guess=_price),
    Quantity(
        label="state on each device", unit="GB", needs=STATE, value=state, limit=memory_of_device
    ),
    Quantity(
        label="with one sequence",
        unit="GB",
        needs=(*STATE, *SEQUENCE),
        value=memory,
        limit=memory_of_device,
        guess=lambda _: "nothing sharded, nothing recomputed",
    ),
    Quantity(
        label="with layers recomputed",
        unit="GB",
        needs=(*STATE, *SEQUENCE, "segment_bytes"),
        value=memory_recomputed,
        limit=memory_of_device,
        guess=lambda _: "one sequence, nothing sharded",
    ),
    Quantity(
        label="state, sharded",
        unit="GB",
        needs=SHARDED,
        value=sharded_state,
        limit=memory_of_device,
        guess=lambda mission: f"ZeRO stage {LAST_STAGE} on {mission.num_devices}",
    ),
    Quantity(
        label="sharded, with one sequence",
        unit="GB",
        needs=(*SHARDED, *SEQUENCE),
        value=sharded_memory,
        limit=memory_of_device,
        guess=lambda _: "nothing recomputed, without gathered layers",
    ),
    Quantity(
        label="passes in each step",
        unit="of one sequence",
        needs=("configuration",),
        value=passes,
        guess=lambda mission: mission.step_in_words,
    ),
    Quantity(
        label="tokens that hide the exchange",
        unit="on each device",
        needs=("parameters", "min_tokens"),
        value=hiding_tokens,
        limit=lambda mission: mission.seq_len,
        guess=lambda mission: f"{gradients_rate(mission) / 10**9:.0f} GB/s links",
    ),
    Quantity(
        label="exchange if all devices share each layer",
        unit="days more",
        needs=("tensor_parallel_bytes",),
        value=exchange_of_shared_layers,
        guess=lambda mission: (
            f"{messages_rate(mission) / 10**9:.0f} GB/s in messages of this size, nothing hidden"
        ),
    ),
    Quantity(
        label="first stage of a pipeline",
        unit="GB",
        needs=(*STATE, "llama_layer_bytes", "pipeline_costs"),
        value=first_stage,
        limit=memory_of_device,
        guess=lambda mission: (
            f"{mission.num_devices} stages cut evenly, ends too, 1F1B, one sequence at a time"
        ),
    ),
    Quantity(
        label="idle in it",
        unit="% of a step",
        needs=("pipeline_costs",),
        value=bubble,
        guess=lambda _: "stages of equal work, no messages",
    ),
    Quantity(
        label="memory of the fastest plan",
        unit="GB",
        needs=FASTEST,
        value=memory_of_fastest,
        limit=memory_of_device,
        guess=lambda _: "the fullest device, with what the framework adds",
    ),
    Quantity(
        label="its time",
        unit="days",
        needs=FASTEST,
        value=days_of_fastest,
        limit=lambda mission: mission.num_days,
        guess=lambda mission: constants_in_words(mission.machine),
    ),
    Quantity(label="its cost", unit="USD", needs=FASTEST, value=cost_of_fastest, guess=_price),
)
