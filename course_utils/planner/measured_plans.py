"""Clusters on which others measured some plans of a model: what is predicted, and the clock.

What a plan costs is predicted with the constants of all other sizes. Beside the plans that ran
stand those that failed and whose bytes, as a lower bound, are more than there are.

    >>> cluster = next(each for each in clusters() if each.name == "3.57B on 2 nodes")
    >>> round(cluster.regret(Plan(data=16, zero_stage=1, micro_batch=2)), 2)
    0.0
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from course_utils.configs import Costs, Machine, ModelConfig, Plan, machine_of
from course_utils.formulas.rank_memory import nanotron_memory
from course_utils.formulas.rates import NODE
from course_utils.planner.predicted import Prediction, predictions
from course_utils.planner.truth.measured import FEWEST_PLANS, STEP_SEQUENCES, step_of
from course_utils.records.sweeps import Run

MEMORY_BYTES = int(79.11 * 2**30)  # of an H100, as its driver says
FEWEST_WORDS = 100_000  # a few rows of 80.0 were models with fewer words, or with shared keys


@dataclass(frozen=True)
class Cluster:
    """A model on some nodes of H100s, with plans that were tried there.

    Attributes:
        size: Of the model, as the Playbook names it.
        nodes: Of eight devices.
        model: Its sizes.
        table: By `Costs.key`, bytes of the first rank and predicted seconds of each plan.
        seconds: The same key, measured seconds of those that ran.
        plan_of: The same key, the plan.
    """

    size: str
    nodes: int
    model: ModelConfig
    table: Mapping[str, tuple[float, float]]
    seconds: Mapping[str, float]
    plan_of: Mapping[str, Plan]

    @property
    def name(self) -> str:
        """In short."""
        return f"{self.size}B on {self.nodes} node{'s' * (self.nodes > 1)}"

    @property
    def machine(self) -> Machine:
        """Its devices."""
        return replace(machine_of("H100-SXM", NODE * self.nodes), memory_bytes=MEMORY_BYTES)

    @property
    def costs(self) -> Costs:
        """What a planner is told: a billion seconds of plans that nobody ran."""
        return Costs({**self.table, Costs.OTHERS: Costs.NOBODY_RAN_IT})

    @property
    def plans(self) -> list[Plan]:
        """The plans that ran."""
        return [self.plan_of[key] for key in self.seconds]

    def of_plans(self, keys: set[str]) -> "Cluster":
        """The same with some of its plans."""
        table = {key: row for key, row in self.table.items() if key in keys}
        seconds = {key: each for key, each in self.seconds.items() if key in keys}
        return replace(self, table=table, seconds=seconds)

    def regret(self, plan: Plan) -> float:
        """How much longer than the best plan's a plan's step took, as a share.

        Infinite where nobody saw it run.
        """
        took = self.seconds.get(Costs.key(plan), float("inf"))
        return took / min(self.seconds.values()) - 1


@functools.cache
def clusters() -> tuple[Cluster, ...]:
    """All on which there is something to choose, by size and nodes."""
    ran, failed = _by_cluster("playbook_runs"), _by_cluster("playbook_failed")
    return tuple(
        _cluster(*key, own, failed.get(key, {}))
        for key, own in sorted(ran.items())
        if len(own) >= FEWEST_PLANS
    )


def _cluster(
    size: str, nodes: int, ran: Mapping[str, Prediction], failed: Mapping[str, Prediction]
) -> Cluster:
    too_large = {key: each for key, each in failed.items() if _bytes_of(each) > MEMORY_BYTES}
    tried = too_large | dict(ran)
    table = {key: (_bytes_of(each), each.step_seconds) for key, each in tried.items()}
    seconds = {key: each.run.step_seconds for key, each in ran.items()}
    model = step_of(next(iter(ran.values())).run).model
    plan_of = {key: step_of(each.run).plan for key, each in tried.items()}
    return Cluster(size, nodes, model, table, seconds, plan_of)


def _bytes_of(each: Prediction) -> int:
    return nanotron_memory(step_of(each.run), 0).at_least


def _by_cluster(table: str) -> dict[tuple[str, int], dict[str, Prediction]]:
    """Plans by key; one that was run twice with its better time."""
    found: dict[tuple[str, int], dict[str, Prediction]] = {}
    for each in predictions(table):
        if _is_comparable(each.run):
            own = found.setdefault((each.run.model, each.run.nodes), {})
            key = Costs.key(step_of(each.run).plan)
            if key not in own or each.run.step_seconds < own[key].run.step_seconds:
                own[key] = each
    return found


def _is_comparable(run: Run) -> bool:
    """Steps of as many sequences, on plans that divide what they cut, of the size that it says."""
    left = run.num_kv_heads % run.tensor or run.num_layers % run.pipeline
    is_plan = not left and (run.data > 1 or not run.zero_stage)
    is_named = run.num_kv_heads == run.num_heads and run.vocab_size > FEWEST_WORDS
    return bool(is_plan and is_named and run.num_sequences == STEP_SEQUENCES)
