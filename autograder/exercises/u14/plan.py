"""The check of unit 14 on plans: the fastest that fits, by the model and as it was measured."""

import functools
import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case
from autograder.checking.seeds import KNOWN_SEEDS
from autograder.exercises.declaring import declares_check
from autograder.exercises.model_sizes import preset_sizes
from autograder.exercises.u14.counts import LLAMA_1B
from autograder.exercises.u14.sweep import drawn
from autograder.observers.u14 import plan as plan_observer
from course_utils.configs import LAST_STAGE, Costs, Machine, Plan, machine_of
from course_utils.formulas.best_plan import plans
from course_utils.formulas.rates import NODE
from course_utils.planner import PlanCosts
from course_utils.planner.measured_plans import Cluster, clusters
from course_utils.planner.truth.measured import STEP_SEQUENCES

# === u14-plan
# The fastest plan that fits, on machines that nobody has seen, by trying all plans; and on machines
# on which others measured some plans, by their clock.


LLAMA_8B = preset_sizes("Llama-3-8B")
SCENARIOS = tuple(plan_observer.ALLOWED_PERCENT)
MODEL, CLOCK = SCENARIOS
NUM_MEASURED, SHOWN_EVERY, SHOWN = 6, 3, 2  # one in three clusters is for practice alone
KEPT_SHARE = 0.8  # of a cluster's plans, so that no two draws are the same
ALLOWED = plan_observer.ALLOWED_PERCENT[CLOCK] / 100
# Which plans somebody takes, by the share of the memory that they need. Each of the first costs
# more than is allowed on one of the clusters at least, each of the others on none, so that a
# mistake earns the same whichever clusters are drawn.
Takes = Callable[[Plan, float], bool]
COSTLY: tuple[Takes, ...] = (
    lambda plan, share: share <= 1 and plan.micro_batch == 1,
    lambda plan, share: share <= 1 and plan.zero_stage != 1,
    lambda _, share: True,
    lambda _, share: share <= 2**30 / 10**9,
)
HARMLESS: tuple[Takes, ...] = (
    lambda _, share: share <= 0.9,
    lambda plan, share: share <= 1 and plan.micro_batch in (1, 2, 4),
    lambda plan, share: share <= 1 and plan.micro_batch in (1, 2, 4, STEP_SEQUENCES // plan.data),
)


MACHINES = ("A100-80", "A100-40")
FAST, SLOW = (150, 235, 450), (5, 10, 20)  # GB/s
ODD_SHARES = (2, 5)  # new cases with 12 sequences: four devices divide them, eight do not
UNCUT = {"num_kv_heads": 1}  # and a prime number of layers: replicas are all that is left
PRIMES = (17, 19, 23)
BY_FAR = 1.05
# Kinds of plans that people leave out, each the only fast one somewhere.
NEEDED: tuple[Callable[[Plan], bool], ...] = (
    lambda plan: plan.zero_stage == 1,
    lambda plan: plan.zero_stage == 2,
    lambda plan: plan.micro_batch == 8,
)


def task_cases(seed: int) -> list[Case]:
    """The practice problem and two nodes, new ones of any size, four on the edge of memory; then
    machines on which plans were measured.
    """
    rng = random.Random(seed)
    cases = [_with_less(case, rng.randint(1, 10**9)) for case in _known_cases()]
    cases += [_new_case(rng, number) for number in range(7)]
    cases += [_stage_or_recomputation(rng), _stage_and_micro_batch(rng)]
    cases += [_just_fits(rng), _just_too_large(rng)]
    cases += [_nothing_fits(rng), _six_devices(rng)]
    cases += [_needed(rng, is_needed) for is_needed in NEEDED]
    every = [deepcopy(case) | {"scenario": MODEL} for case in [_known_cases()[0], *cases]]
    return every + _measured_cases(rng, is_shown=seed in KNOWN_SEEDS)


def _with_less(case: Case, num_bytes: int) -> Case:
    """The same task with less memory."""
    memory_bytes = case["machine"]["memory_bytes"] - num_bytes
    return case | {"machine": case["machine"] | {"memory_bytes": memory_bytes}}


@functools.cache
def _known_cases() -> tuple[Case, ...]:
    """Made once, as they are the same for every seed."""
    tasks = [PlanCosts(model_of(LLAMA_1B), 4096, 32, machine_of("A100-80", 4))]
    tasks += [PlanCosts(model_of(LLAMA_8B), 8192, 16, machine_of(name, 8)) for name in MACHINES]
    return tuple(_case(task, _costs(task), task.machine.memory_bytes) for task in tasks)


def _new_case(rng: random.Random, number: int) -> Case:
    """Fast links and slow ones; memory for some of the plans."""
    model = LLAMA_8B if number % 2 else LLAMA_1B
    layers = rng.choice((12, 16, 24, 32))
    sizes = model_of(model | {"num_layers": layers, "num_kv_heads": rng.choice((2, 4, 8))})
    link = rng.choice(SLOW if number % 3 == 0 else FAST) * 10**9
    devices = 8 if number % 4 == 1 else 4
    machine = replace(machine_of("H100-SXM", devices), link_bytes_per_second=link)
    sequences = 12 if number in ODD_SHARES else rng.choice((8, 16))
    task = PlanCosts(sizes, rng.choice((2048, 4096)), sequences, machine)
    costs = _costs(task)
    needed = sorted(row[0] for row in costs.values())
    return _case(task, costs, int(needed[int(len(needed) * rng.uniform(0.3, 0.6))]))


def _stage_or_recomputation(rng: random.Random) -> Case:
    """Without stage 3 layers must run again, which takes longer than gathering over fast links."""
    name, link = rng.choice((*MACHINES, "H100-SXM")), rng.choice(FAST[1:])
    task = _uncut_task(rng, name, 8192, link)
    return _case(task, _costs(task), _least_bytes(task, is_recomputed=False) - 1)


def _stage_and_micro_batch(rng: random.Random) -> Case:
    """Only stage 3 fits, and each micro-batch gathers all weights over slow links."""
    task = _uncut_task(rng, rng.choice(MACHINES), 64, rng.choice(SLOW))
    return _case(task, _costs(task), _least_bytes(task, is_recomputed=True) - 1)


def _just_fits(rng: random.Random) -> Case:
    """The fastest plan fits to the byte; with less memory layers must run again."""
    task = _uncut_task(rng, rng.choice(MACHINES), 8192, rng.choice(SLOW))
    return _case(task, _costs(task), _least_bytes(task, is_recomputed=False))


def _just_too_large(rng: random.Random) -> Case:
    """The same, but for one byte; others need more and are as fast."""
    case = _just_fits(rng)
    case["machine"]["memory_bytes"] -= 1
    return case


def _nothing_fits(rng: random.Random) -> Case:
    """The smallest plan lacks a byte."""
    task = _uncut_task(rng, rng.choice(MACHINES), 8192, rng.choice(SLOW))
    costs = _costs(task)
    return _case(task, costs, int(min(row[0] for row in costs.values())) - 1)


def _measured_cases(rng: random.Random, *, is_shown: bool) -> list[Case]:
    """Some clusters for practice, or some of the others, each with most of its plans."""
    every = [each for n, each in enumerate(reachable()) if (n % SHOWN_EVERY == SHOWN) == is_shown]
    chosen = drawn(
        lambda: [_with_most_plans(rng, each) for each in rng.sample(every, NUM_MEASURED)],
        lambda some: all(any(_is_far(each, takes) for each in some) for takes in COSTLY),
    )
    return [_measured_case(each) for each in chosen]


@functools.cache
def reachable() -> tuple[Cluster, ...]:
    """Clusters on which the right planner is near enough to the best plan: 20 of 25.

    Of the others, three have 64 nodes and two run 80.0.
    """
    return tuple(each for each in clusters() if _is_reachable(each))


def _is_reachable(cluster: Cluster) -> bool:
    return not _is_far(cluster, lambda _, share: share <= 1)


def _is_far(cluster: Cluster, takes: Takes) -> bool:
    """Whether the clock refuses the fastest, as predicted, of the plans that somebody takes."""
    memory = cluster.machine.memory_bytes
    seconds = {
        key: each
        for key, (num_bytes, each) in cluster.table.items()
        if takes(cluster.plan_of[key], num_bytes / memory)
    }
    fastest = min(seconds, key=seconds.__getitem__, default=None)
    return fastest is None or cluster.regret(cluster.plan_of[fastest]) > ALLOWED


def _with_most_plans(rng: random.Random, cluster: Cluster) -> Cluster:
    keys = sorted(cluster.table)
    while True:
        some = cluster.of_plans({*rng.sample(keys, int(KEPT_SHARE * len(keys)))})
        if some.seconds and _is_reachable(some) and not any(_is_far(some, t) for t in HARMLESS):
            return some


def _measured_case(cluster: Cluster) -> Case:
    return {
        "model": {name: each for name, each in vars(cluster.model).items() if each is not None},
        "num_sequences": STEP_SEQUENCES,
        "machine": asdict(cluster.machine),
        "costs": {key: list(row) for key, row in sorted(cluster.costs.table.items())},
        "scenario": CLOCK,
    }


def _six_devices(rng: random.Random) -> Case:
    """Eight sequences and six devices leave no plan but one of three stages or six."""
    sizes = model_of(LLAMA_1B | {"num_layers": rng.choice((12, 18, 24)), "num_kv_heads": 8})
    task = PlanCosts(sizes, rng.choice((2048, 4096)), 8, machine_of("H100-SXM", 6))
    return _case(task, _costs(task), task.machine.memory_bytes)


def _needed(rng: random.Random, is_needed: Callable[[Plan], bool]) -> Case:
    """As much memory as makes any other plan slower by far."""
    while True:
        task = _uncut_task(rng, rng.choice(MACHINES), 512, rng.choice(SLOW))
        costs = _costs(task)
        every = [each for each in _every_plan(task) if is_needed(each)]
        for plan in sorted(every, key=lambda each: costs[Costs.key(each)][0]):
            memory = costs[Costs.key(plan)][0]
            fitting = [each for each in _every_plan(task) if costs[Costs.key(each)][0] <= memory]
            others = [costs[Costs.key(each)][1] for each in fitting if not is_needed(each)]
            best = min(costs[Costs.key(each)][1] for each in fitting)
            if others and min(others) > BY_FAR * best:
                return _case(task, costs, int(memory))


def _every_plan(task: PlanCosts) -> list[Plan]:
    return list(plans(task.model, task.num_sequences, task.machine))


def _uncut_task(rng: random.Random, name: str, seq_len: int, link: int) -> PlanCosts:
    """Eight devices and a model that neither tensor ranks nor stages can cut."""
    sizes = model_of(LLAMA_1B | UNCUT | {"num_layers": rng.choice(PRIMES)})
    machine = replace(machine_of(name, 8), link_bytes_per_second=link * 10**9)
    return PlanCosts(sizes, seq_len, 128, machine)


def _least_bytes(task: PlanCosts, *, is_recomputed: bool) -> int:
    """What the smallest plan below stage 3 takes."""
    every = plans(task.model, task.num_sequences, task.machine)
    return min(
        task.bytes_of(each)
        for each in every
        if each.zero_stage < LAST_STAGE and each.is_recomputed == is_recomputed
    )


def _case(task: PlanCosts, costs: dict[str, list[float]], memory_bytes: int) -> Case:
    return {
        "model": {name: each for name, each in vars(task.model).items() if each is not None},
        "num_sequences": task.num_sequences,
        "machine": asdict(replace(task.machine, memory_bytes=memory_bytes)),
        "costs": costs,
    }


def _costs(task: PlanCosts) -> dict[str, list[float]]:
    """Bytes and seconds of every plan there is, in an order that says nothing of the plans."""
    every = plans(task.model, task.num_sequences, task.machine)
    by_key = sorted(((Costs.key(each), each) for each in every), key=lambda pair: pair[0])
    return {key: [task.bytes_of(each), round(task.seconds_of(each), 6)] for key, each in by_key}


@declares_check(
    "u14-plan",
    task_cases,
    observer=plan_observer,
    scenarios=SCENARIOS,
    fallback="course_utils.formulas.best_plan.best_plan",
    give_away=(
        "course_utils.formulas.best_plan",
        "course_utils.planner.measured_plans",
        "course_utils.records.sweeps",
    ),
)
def tried(
    model: dict[str, Any],
    num_sequences: int,
    machine: dict[str, Any],
    costs: dict[str, list[float]],
    scenario: str,
) -> dict[str, Any]:
    """The best of the whole table; by the clock, of all that ran."""
    if scenario == CLOCK:
        nodes, sizes = Machine(**machine).num_devices // NODE, model_of(model)
        cluster = next(each for each in clusters() if (each.nodes, each.model) == (nodes, sizes))
        seconds = dict(cluster.of_plans({*costs}).seconds)
        return {"seconds": seconds, "best": min(seconds.values())}
    memory = Machine(**machine).memory_bytes
    seconds = {key: each for key, (num_bytes, each) in costs.items() if num_bytes <= memory}
    return {"seconds": seconds, "best": min(seconds.values(), default=0.0)}
