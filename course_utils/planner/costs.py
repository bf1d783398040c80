"""What does each plan of a task cost: bytes of its fullest rank, seconds of its step?

The software is nanotron, on which more layouts were measured than on any other; stages 2 and 3 and
layers that run again are what it would take with them.

    >>> costs = PlanCosts(preset("Llama-3-8B"), 8192, 512, machine_of("H100-SXM", 8))
    >>> costs.memory(Plan(data=8)).verdict(costs.machine.memory_bytes)
    'does not'
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, Self

from course_utils.configs import Machine, ModelConfig, NoSuchPlan, Plan
from course_utils.formulas.cluster_step import NANOTRON, pace_of, step_work
from course_utils.formulas.rank_memory import RankMemory, nanotron_memory
from course_utils.formulas.step import Step
from course_utils.planner.mission import Mission
from course_utils.planner.rates import rates_of

MOST_TIMES, HALVINGS = 10, 50  # of a constant that is fitted
FAR_TOO_MUCH = 10**18  # bytes or seconds of what nobody can start


@dataclass(frozen=True)
class PlanCosts:
    """What is trained on what, so that a plan alone is left to choose.

    Attributes:
        model: Its sizes.
        seq_len: Tokens of a sequence.
        num_sequences: Of a step, on all devices.
        machine: The devices.
        has_fp32_gradients: Whether every plan keeps its gradients in fp32.
    """

    model: ModelConfig
    seq_len: int
    num_sequences: int
    machine: Machine
    has_fp32_gradients: bool = False

    @classmethod
    def of(cls, mission: Mission) -> Self:
        """For a mission."""
        sizes = mission.model, mission.seq_len, mission.sequences_per_step, mission.machine
        return cls(*sizes, mission.has_fp32_gradients)

    def step(self, plan: Plan) -> Step:
        """The step of a plan.

        Raises:
            NoSuchPlan: If the plan does not use all devices or does not divide what it cuts.
            ValueError: If no run checks such a step: latent attention, experts.
        """
        refuse(plan, self)
        if self.has_fp32_gradients:
            plan = replace(plan, has_fp32_gradients=True)
        return Step(self.model, self.seq_len, self.num_sequences, plan)

    def memory(self, plan: Plan) -> RankMemory:
        """Bytes of the fullest rank: at least, and with what the framework adds."""
        step = self.step(plan)
        ranks = (nanotron_memory(step, stage) for stage in range(plan.pipeline))
        return max(ranks, key=lambda rank: rank.expected)

    def seconds_by_part(self, plan: Plan) -> dict[str, float]:
        """Seconds of a step, as `StepWork.parts` names them."""
        return dict(_seconds_by_part(self.step(plan), self.machine))

    def bytes_by_part(self, plan: Plan) -> dict[str, int]:
        """Bytes of the fullest rank: state, activations, all else that is kept, what is added."""
        memory = self.memory(plan)
        kept = dict(memory.kept)
        state = sum(kept.pop(name) for name in ("weights", "gradients", "optimizer"))
        activations, logits = kept.pop("activations"), kept.pop("logits")
        return {
            "state": state,
            "layers": activations,
            "loss": logits,
            "gathered": sum(kept.values()),
            "added": sum(memory.added.values()),
        }

    def bytes_of(self, plan: Plan) -> int:
        """Bytes of the fullest rank, with what the framework adds.

        Raises:
            NoSuchPlan: As `step` does.
        """
        return self.memory(plan).expected

    def seconds_of(self, plan: Plan) -> float:
        """Seconds of a step.

        Raises:
            NoSuchPlan: As `step` does.
        """
        return math.fsum(self.seconds_by_part(plan).values())

    def is_cut(self, plan: Plan) -> bool:
        """Whether tensor ranks divide the tokens of a sequence, as sequence parallelism has to."""
        return self.seq_len % plan.tensor == 0


class Searched(PlanCosts):
    """The same for a search, in which sequence parallelism makes some plans impossible.

    `plans` knows no length of a sequence: what tensor ranks do not divide it fits on no device.
    """

    def bytes_of(self, plan: Plan) -> int:
        """Bytes of the fullest rank."""
        return super().bytes_of(plan) if self.is_cut(plan) else FAR_TOO_MUCH

    def seconds_of(self, plan: Plan) -> float:
        """Seconds of a step."""
        return super().seconds_of(plan) if self.is_cut(plan) else FAR_TOO_MUCH


def refuse(plan: Plan, costs: PlanCosts) -> None:
    """Refuse a plan that nobody can start.

    Raises:
        NoSuchPlan: With what it does not use or does not divide.
    """
    model, devices = costs.model, costs.machine.num_devices
    if plan.num_devices != devices:
        raise NoSuchPlan(plan, f"{plan.num_devices} devices of {devices}")
    for part, size, what, whole in (
        ("tensor ranks", plan.tensor, "key and value heads", model.num_kv_heads),
        ("tensor ranks", plan.tensor, "tokens of a sequence", costs.seq_len),
        ("stages", plan.pipeline, "layers", model.num_layers),
        ("replicas", plan.data, "sequences", costs.num_sequences),
        (
            "sequences of a micro-batch",
            plan.micro_batch,
            "of a replica",
            costs.num_sequences // plan.data,
        ),
    ):
        if whole % size or not whole:
            raise NoSuchPlan(plan, f"{size} {part} do not divide {whole:,} {what}")


@functools.lru_cache(maxsize=2**16)
def _seconds_by_part(step: Step, machine: Machine) -> dict[str, float]:
    work = step_work(step, NANOTRON, rates_of(machine))
    return {name: float(each) for name, each in work.parts(pace_of(machine)).items()}


def calibrate_from(machine: Machine, step: Step, step_seconds: float) -> Machine:
    """The machine on which a measured step of one's own takes as long as it did.

    One step calibrates one constant: seconds of a layer's launches where those set the pace, else
    how many times as long as their bytes kernels take. It holds for steps of the same length of
    sequence; elsewhere it is uncertain, as attention and products stay those of the machine.

    Args:
        machine: Where the step ran, with constants of other software.
        step: What ran: model, tokens, sequences, plan.
        step_seconds: Its time, after the first few steps.

    Raises:
        ValueError: If no constant can explain the time, or many of them do.
    """
    is_launched = _seconds_by_part(step, machine)["launches"] > 0
    name = "launch_seconds" if is_launched else "elementwise"
    varied = "the launches of a layer" if is_launched else "kernels that only move bytes"

    def with_constant(value: float) -> Machine:
        constant: dict[str, Any] = {name: value}
        return replace(machine, **constant)

    def seconds(value: float) -> float:
        return math.fsum(_seconds_by_part(step, with_constant(value)).values())

    least, most = 0.0, MOST_TIMES * getattr(machine, name)
    if not seconds(least) <= step_seconds <= seconds(most):
        raise ValueError(
            f"a step of {step_seconds:.3g} s: on {machine} this plan takes between "
            f"{seconds(least):.3g} and {seconds(most):.3g} s where {varied} take 0 to "
            f"{MOST_TIMES} times as long as there ({name}), and attention and products stay as the "
            "machine has them; are model, tokens and plan those of the measured step, and is it "
            "past the first few? If your attention is faster, calibrate a machine with less of "
            "`attention`: dataclasses.replace(machine, attention=…)"
        )
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        least, most = (least, middle) if seconds(middle) >= step_seconds else (middle, most)
    if seconds(least / 2) == seconds(least):
        raise ValueError(
            f"a step of {step_seconds:.3g} s: on {machine} it takes as long with half of "
            f"`{name}`, so that it tells nothing of it; measure a step with larger micro-batches"
        )
    return with_constant(most)
