"""The plan that is chosen: what it takes by part, how sure that is, two others, and its flags.

>>> choice = Choice(MISSION, Plan(data=2, pipeline=4, zero_stage=1))
>>> [str(each) for each in choice.runners_up()]
['d 4 t 2 p 1, stage 1, micro-batch 1', 'd 8 t 1 p 1, stage 3, micro-batch 1']
"""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from course_utils.configs import Plan
from course_utils.formulas.best_plan import plans
from course_utils.formulas.training_flops import training_flops_per_token
from course_utils.planner.costs import PlanCosts, refuse
from course_utils.planner.flags import arguments, flags
from course_utils.planner.mission import Mission
from course_utils.planner.truth.figures import Line
from course_utils.planner.truth.kinds import memory_line, time_line, why_no_line

GB, GIB = 10**9, 2**30
NUM_OTHERS = 2
EXPOSED = ("messages", "replicas")

Row = tuple[str, str, str]


@dataclass(frozen=True)
class Choice:
    """A plan for a mission; gives the rows that a report has of it.

    Attributes:
        mission: What is trained on what.
        plan: How.
    """

    mission: Mission
    plan: Plan

    def __post_init__(self) -> None:
        """Refuse a plan that nobody can start.

        Raises:
            NoSuchPlan: If it does not use all devices or does not divide what it cuts.
        """
        refuse(self.plan, self.costs)

    @property
    def costs(self) -> PlanCosts:
        """What each plan costs."""
        return PlanCosts.of(self.mission)

    @property
    def bar(self) -> Line | None:
        """Held-out rows of this kind."""
        return time_line(self.mission.machine, self.plan)

    @functools.cached_property
    def possible(self) -> list[Plan]:
        """All plans that fit, or may, the fastest first."""
        mission, costs = self.mission, self.costs
        every = plans(mission.model, mission.sequences_per_step, mission.machine)
        limit = mission.machine.memory_bytes
        allowed = (
            each
            for each in every
            if costs.is_cut(each) and costs.memory(each).verdict(limit) != "does not"
        )
        return sorted(allowed, key=costs.seconds_of)

    def runners_up(self) -> list[Plan]:
        """The fastest plans that fit, or may, on the next two ways to cut devices."""
        by_sizes: dict[tuple[int, ...], Plan] = {}
        for each in self.possible:
            by_sizes.setdefault(_sizes(each), each)
        return [each for sizes, each in by_sizes.items() if sizes != _sizes(self.plan)][:NUM_OTHERS]

    def rows(self) -> Iterator[Row]:
        """Label, value and note of each line."""
        num_micro_batches = self.plan.num_micro_batches(self.mission.sequences_per_step)
        yield "the plan", f"{self.plan}, {num_micro_batches} of them", self._verdict(self.plan)
        yield "its memory by part", self._memory_by_part(), self._memory_bar()
        yield "its step", *self._step()
        days = self.mission.days(self.costs.seconds_of(self.plan))
        yield "its utilisation", *self._utilisation()
        yield "its days", *self._with_bar(days, "days")
        yield "its cost", *self._with_bar(self.mission.usd(days), "USD")
        for number, other in enumerate(self.runners_up(), 2):
            yield f"number {number}", str(other), f"{self._compared(other)}; {self._verdict(other)}"
        for framework in arguments():
            yield f"in {framework}", *self._flags(framework)

    def _verdict(self, plan: Plan) -> str:
        memory, limit = self.costs.memory(plan), self.mission.machine.memory_bytes
        return (
            f"{memory.verdict(limit)}: at least {memory.at_least / GB:.1f} GB, "
            f"{memory.expected / GB:.1f} with what the framework adds, of {limit / GB:.1f} "
            f"({limit / GIB:.1f} GiB: the driver's, less context and NCCL)"
        )

    def _memory_by_part(self) -> str:
        parts = self.costs.bytes_by_part(self.plan)
        return ", ".join(f"{name} {each / GB:.1f}" for name, each in parts.items()) + " GB"

    def _memory_bar(self) -> str:
        line = memory_line()
        figures = line.of_class if self.plan.tensor == 1 else line.of_all
        added = self.costs.memory(self.plan).added
        names = ", ".join(name for name, each in added.items() if each) or "nothing"
        return (
            f"added: {names}; {line.on}: half of {figures.count:.0f} rows within "
            f"{figures.median:.1f} %, nine in ten within {figures.ninety:.0f} %"
        )

    def _step(self) -> tuple[str, str]:
        parts = self.costs.seconds_by_part(self.plan)
        exposed = sum(parts.pop(name) for name in EXPOSED)
        said = ", ".join(f"{name} {each:.2f}" for name, each in parts.items())
        seconds = self.costs.seconds_of(self.plan)
        tokens = self.mission.tokens_in_step / seconds / self.mission.num_devices
        return f"{seconds:.2f} s", f"{said}, exposed {exposed:.2f}; {tokens:,.0f} tokens/s a device"

    def _utilisation(self) -> tuple[str, str]:
        mission = self.mission
        flops = mission.tokens_in_step * training_flops_per_token(mission.model, mission.seq_len)
        peak = mission.num_devices * mission.machine.peak_flops_per_second
        return f"{flops / peak / self.costs.seconds_of(self.plan):.1%} of the peak", (
            f"attention in full; “its time” means this share, and the rough “time” assumes "
            f"{mission.utilisation:.0%}"
        )

    def _with_bar(self, number: float, unit: str) -> tuple[str, str]:
        if self.bar is None:
            return f"{number:,.3g} {unit}", why_no_line(self.mission.machine, self.plan)
        share = self.bar.of_class.ninety / 100
        most = f"to {_short(number / (1 - share))}" if share < 1 else "and up"
        said = f"{_short(number)} {unit}, from {_short(number / (1 + share))} {most}"
        figures = self.bar.of_class
        return said, (
            f"{self.bar.on}: nine in ten of {figures.count:.0f} held-out rows within "
            f"{figures.ninety:.0f} %"
        )

    def _compared(self, other: Plan) -> str:
        ratio = self.costs.seconds_of(other) / self.costs.seconds_of(self.plan) - 1
        days = self.mission.days(self.costs.seconds_of(other))
        is_within = self.bar is not None and 100 * abs(ratio) <= self.bar.of_class.ninety
        close = ", within the error bar" if is_within else ""
        usd = self.mission.usd(days)
        return f"{100 * ratio:+.1f} %{close}: {_short(days)} days, {_short(usd)} USD"

    def _flags(self, framework: str) -> tuple[str, str]:
        try:
            return self._flags_of(self.plan, framework), ""
        except ValueError as error:
            return "not expressible", f"{error}; {self._instead(framework)}"

    def _flags_of(self, plan: Plan, framework: str) -> str:
        plan = replace(plan, has_fp32_gradients=self.mission.has_fp32_gradients)
        mission = self.mission
        return " ".join(flags(framework, plan, mission.seq_len, mission.sequences_per_step))

    def _instead(self, framework: str) -> str:
        """The fastest plan that a framework can express."""
        for each in sorted(self.possible, key=lambda plan: not self._fits(plan)):
            with contextlib.suppress(ValueError):
                said = self._flags_of(each, framework)
                doubt = "" if self._fits(each) else f"; {self._verdict(each)}"
                compared = f"{self._compared(each)}{doubt}"
                return f"the fastest that it can express: {each} ({compared}): {said}"
        if self.mission.has_fp32_gradients:
            return "nor can it express any other plan that fits"
        return (
            "nor can it express any other plan that fits with gradients in bf16; see what it can "
            "with has_fp32_gradients=True in the mission"
        )

    def _fits(self, plan: Plan) -> bool:
        """Whether it fits with what the framework adds."""
        return self.costs.memory(plan).verdict(self.mission.machine.memory_bytes) == "fits"


def _sizes(plan: Plan) -> tuple[int, ...]:
    return plan.data, plan.tensor, plan.pipeline


def _short(number: float) -> str:
    return f"{number:,.3g}" if number < 1000 else f"{number:,.0f}"
