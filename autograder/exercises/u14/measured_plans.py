"""Machines on which others measured some plans of a model: what is known of them, and their clock.

What a plan costs is predicted with the constants of all other sizes. A machine is one of the
Playbook's: a size on so many nodes. Left out are machines on which even the right planner is more
than 10 % slower than the best plan: all with 64 nodes, and two of 22 others.
"""

import functools
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from autograder.checking.exercise_check import Case
from course_utils.configs import Costs, ModelConfig, Plan, machine_of
from course_utils.formulas.rank_memory import nanotron_memory
from course_utils.planner.predicted import Prediction, predictions
from course_utils.planner.truth.measured import STEP_SEQUENCES, step_of
from course_utils.records.sweeps import Run

NODE, MOST_NODES, FEWEST_PLANS = 8, 32, 5
MEMORY_BYTES = int(79.11 * 2**30)  # of an H100, as its driver says
KEPT_SHARE = 0.8  # of a machine's plans, so that no two draws are the same
ALLOWED = 1.10
SHOWN_EVERY = 3  # the first of three machines is for practice alone

Machine = tuple[str, int]
"""A size, and nodes."""

Table = dict[str, list[float]]


def drawn_cases(rng: random.Random, count: int, *, is_shown: bool) -> list[Case]:
    """Some of the machines for practice, or of the others, each with most of its plans."""
    machines = [each for n, each in enumerate(usable()) if (n % SHOWN_EVERY == 0) == is_shown]
    chosen = rng.sample(machines, min(count, len(machines)))
    chosen += rng.choices(machines, k=count - len(chosen))
    return [_case(rng, each) for each in chosen]


@functools.cache
def usable() -> tuple[Machine, ...]:
    """Machines with enough plans, on which the right planner is near enough to the best of them."""
    return tuple(
        each
        for each in _known()
        if len(_ran(each)) >= FEWEST_PLANS and _regret(each, _table(each)) <= ALLOWED
    )


def seconds_of(
    model: Mapping[str, Any], num_devices: int, costs: Mapping[str, Any]
) -> dict[str, float]:
    """What the clock said of the plans in a table that ran."""
    sizes = ModelConfig(**model)
    size = next(
        size
        for size, nodes in _known()
        if nodes * NODE == num_devices and _model(size, nodes) == sizes
    )
    ran = _ran((size, num_devices // NODE))
    return {key: each.run.step_seconds for key, each in ran.items() if key in costs}


def _case(rng: random.Random, machine: Machine) -> Case:
    size, nodes = machine
    every = _table(machine)
    while True:
        kept = sorted(rng.sample(sorted(every), max(FEWEST_PLANS, int(KEPT_SHARE * len(every)))))
        table = {key: every[key] for key in kept}
        if _regret(machine, table) <= ALLOWED:
            break
    device = replace(machine_of("H100-SXM", NODE * nodes), memory_bytes=MEMORY_BYTES)
    sizes = {name: each for name, each in vars(_model(size, nodes)).items() if each is not None}
    return {
        "model": sizes,
        "num_sequences": STEP_SEQUENCES,
        "machine": asdict(device),
        "costs": table | {Costs.OTHERS: list(Costs.NOBODY_RAN_IT)},
    }


def _regret(machine: Machine, table: Table) -> float:
    """How many times the best plan's seconds the right planner's choice took; infinite if none."""
    ran = {key: each for key, each in _ran(machine).items() if key in table}
    fitting = [key for key, (num_bytes, _) in table.items() if num_bytes <= MEMORY_BYTES]
    if not ran or not fitting:
        return float("inf")
    chosen = min(fitting, key=lambda key: table[key][1])
    return ran[chosen].run.step_seconds / min(each.run.step_seconds for each in ran.values())


@functools.cache
def _table(machine: Machine) -> Table:
    """Bytes at least and predicted seconds: of plans that ran, and of those that cannot fit."""
    ran, failed = _ran(machine), _by_machine("playbook_failed").get(machine, {})
    table = {key: [_bytes_of(each), each.step_seconds] for key, each in ran.items()}
    for key, each in failed.items():
        if key not in ran and _bytes_of(each) > MEMORY_BYTES:
            table[key] = [_bytes_of(each), each.step_seconds]
    return table


def _bytes_of(each: Prediction) -> int:
    return nanotron_memory(step_of(each.run), 0).at_least


def _known() -> list[Machine]:
    return sorted(each for each in _by_machine("playbook_runs") if each[1] <= MOST_NODES)


def _ran(machine: Machine) -> dict[str, Prediction]:
    return _by_machine("playbook_runs")[machine]


@functools.cache
def _by_machine(table: str) -> dict[Machine, dict[str, Prediction]]:
    """By machine and plan; a plan that was run twice with its better time."""
    found: dict[Machine, dict[str, Prediction]] = {}
    for key, each in _plans(table):
        own = found.setdefault((each.run.model, each.run.nodes), {})
        if key not in own or each.run.step_seconds < own[key].run.step_seconds:
            own[key] = each
    return found


def _plans(table: str) -> Iterator[tuple[str, Prediction]]:
    """Plans that divide what they cut, of the size that most rows of that name have."""
    for each in predictions(table):
        run = each.run
        if run.num_sequences == STEP_SEQUENCES and _divides(run) and _is_as_named(run):
            plan = Plan(
                data=run.data,
                tensor=run.tensor,
                pipeline=run.pipeline,
                zero_stage=run.zero_stage,
                micro_batch=run.micro_batch,
            )
            yield Costs.key(plan), each


def _divides(run: Run) -> bool:
    left = run.num_kv_heads % run.tensor or run.num_layers % run.pipeline
    return not left and (run.data > 1 or not run.zero_stage)


def _is_as_named(run: Run) -> bool:
    """Not one of the few rows of 80.0 that were other models."""
    return run.num_kv_heads == run.num_heads and run.vocab_size > 100_000


def _model(size: str, nodes: int) -> ModelConfig:
    return step_of(next(iter(_ran((size, nodes)).values())).run).model
