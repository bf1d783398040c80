"""The checks of unit 12: layers on a row of devices."""

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from autograder.checking.exercise_check import Case, named
from autograder.checking.mistakes import Symptom
from autograder.exercises.declaring import declares_check
from autograder.observers.checksums import checksum
from autograder.observers.u12 import (
    gpipe_lists,
    halves,
    interleaved_lists,
    one_f_one_b_lists,
    stages,
    zero_lists,
)
from course_utils.configs import Action, Placement
from course_utils.distributed import Comm, VirtualCluster
from course_utils.instruments import PassSeconds, simulate_pipeline
from course_utils.reference.pipeline_schedules import gpipe, greedy_halves, one_forward_one_backward
from course_utils.reference.pipeline_stage import run_stage

# === for several exercises
# What is right of a schedule, whatever its order: every action once, and so many seconds.
#
# F takes one second and B two, or I and W one each; of a chunk too.


F, B = 1, 2
ANSWERS = ("course_utils.reference.pipeline_schedules",)
FORBIDDEN = ("torch.distributed.pipelining",)
MANY, FEW = "many", "few"


def right_numbers(
    num_stages: int, seconds: int, held: Sequence[int], **others: int
) -> dict[str, int]:
    """The numbers of a schedule that is whole.

    Args:
        num_stages: Lists that are wanted.
        seconds: Of the step.
        held: The most passes in flight on each stage.
        others: What else is counted.
    """
    return {
        "lists": num_stages,
        "seconds": seconds,
        **others,
        **{f"held_{stage}": number for stage, number in enumerate(held)},
    }


def fewest_seconds(num_stages: int, passes_of_a_stage: int) -> int:
    """Of lists of F and B: the way down to the last stage, all its work, the way back up."""
    return (num_stages - 1) * F + passes_of_a_stage * (F + B) + (num_stages - 1) * B


def cases_of(worked: tuple[int, int], rng: random.Random) -> list[Case]:
    """Stages and micro-batches: those given, corners, then as many of each scenario at random."""
    equal = rng.randint(2, 9)
    sizes = [worked, (4, rng.randint(8, 20)), (1, rng.randint(1, 20)), (equal, equal)]
    sizes += [(rng.randint(4, 9), 2), (rng.randint(3, 12), 1)]
    for _ in range(8):
        num_stages = rng.randint(2, 7)
        sizes.append((num_stages, num_stages + rng.randint(0, 9)))
        num_stages = rng.randint(3, 9)
        sizes.append((num_stages, rng.randint(1, num_stages - 1)))
    return [
        {
            "scenario": MANY if num_micro_batches >= num_stages else FEW,
            "num_stages": num_stages,
            "num_micro_batches": num_micro_batches,
        }
        for num_stages, num_micro_batches in sizes
    ]


# === u12-gpipe
# The lists of GPipe, followed by the simulator of pipelines.


GPIPE_NAMES = ("num_stages", "num_micro_batches")


def gpipe_cases(seed: int) -> list[Case]:
    """Few micro-batches and many; one stage, one micro-batch."""
    rng = random.Random(seed)
    num_stages = rng.randint(3, 7)
    sizes = [(1, 2), (num_stages, num_stages), (num_stages, rng.randint(8, 16))]
    sizes += [(1, rng.randint(1, 20)), (1, rng.randint(1, 20)), (rng.randint(2, 12), 1)]
    sizes.append((num_stages, rng.randint(2, num_stages - 1)))
    sizes += [(rng.randint(2, 7), rng.randint(2, 16)) for _ in range(15)]
    return [named(GPIPE_NAMES, each) for each in sizes]


@declares_check(
    "u12-gpipe",
    gpipe_cases,
    observer=gpipe_lists,
    fallback="course_utils.reference.pipeline_schedules.gpipe",
    give_away=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
def measured_gpipe(num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """All micro-batches in flight on every stage, and no forward pass after a backward one."""
    seconds = fewest_seconds(num_stages, num_micro_batches)
    held = [num_micro_batches] * num_stages
    return right_numbers(num_stages, seconds, held)


# === u12-one-f-one-b
# The lists of 1F1B, followed by the simulator of pipelines.


def schedule_cases(seed: int) -> list[Case]:
    """As many micro-batches as stages, more, fewer; one stage, one micro-batch."""
    return cases_of((2, 2), random.Random(seed))


@declares_check(
    "u12-one-f-one-b",
    schedule_cases,
    observer=one_f_one_b_lists,
    scenarios=(MANY, FEW),
    fallback="course_utils.reference.pipeline_schedules.one_forward_one_backward",
    give_away=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
def measured_one_f_one_b(scenario: str, num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """The fewest seconds, and on stage s as many micro-batches as are below it and on it."""
    held = [min(num_micro_batches, num_stages - stage) for stage in range(num_stages)]
    return right_numbers(num_stages, fewest_seconds(num_stages, num_micro_batches), held)


# === u12-costs
# What a pipeline costs: seconds, idle seconds, micro-batches in flight.


COSTS_NAMES = ("num_stages", "num_micro_batches", "forward_seconds", "backward_seconds", "stage")


def cost_cases(seed: int) -> list[Case]:
    """One stage and many, few micro-batches, F and B of any length, the first and last stage."""
    rng = random.Random(seed)
    one, two = rng.randint(1, 30), rng.randint(1, 30)
    sizes = [(2, 3, 1, 2, 1), (4, 8, one, two, 0), (1, 4, one, two, 0), (6, 2, one, two, 0)]
    sizes += [(5, 1, one, two, 4), (4, 4, two, two, 3)]
    sizes.append((3, 5, 2**53 + 8 * rng.randint(0, 99) + 1, 2**54 + 3, 1))
    for number in range(14):
        num_stages = rng.randint(2, 7)
        most = num_stages - 1 if number % 3 == 0 else 12
        stage = (0, rng.randrange(num_stages), num_stages - 1)[number % 3]
        seconds = rng.randint(1, 9), rng.randint(1, 9)
        sizes.append((num_stages, rng.randint(1, most), *seconds, stage))
    return [named(COSTS_NAMES, each) for each in sizes]


@declares_check(
    "u12-costs",
    cost_cases,
    labels={
        "seconds": "seconds of the step",
        "idle_seconds": "seconds in which the stage is idle",
        "gpipe": "micro-batches in flight with GPipe",
        "1f1b": "micro-batches in flight with 1F1B",
    },
    fallback="course_utils.formulas.pipeline.pipeline_costs",
)
def simulated_costs(
    num_stages: int,
    num_micro_batches: int,
    forward_seconds: int,
    backward_seconds: int,
    stage: int,
) -> dict[str, int]:
    """What the simulator says of both orders."""
    seconds = PassSeconds(
        forward=forward_seconds, input_gradient=backward_seconds, weight_gradient=0
    )
    schedules = {
        "gpipe": gpipe(num_stages, num_micro_batches),
        "1f1b": one_forward_one_backward(num_stages, num_micro_batches),
    }
    runs = {
        name: simulate_pipeline(each, num_micro_batches, seconds=seconds).require_complete()
        for name, each in schedules.items()
    }
    last = runs["1f1b"]
    return {
        "seconds": int(last.seconds),
        "idle_seconds": int(last.idle_seconds(stage)),
        **{name: int(run.in_flight(stage)) for name, run in runs.items()},
    }


# === u12-halves
# A backward pass in two halves: gradients by autograd, FLOPs of each half.


HALVES_NAMES = ("widths", "rows", "seed")


def half_cases(seed: int) -> list[Case]:
    """One layer to four, of one width and of several; one row and more."""
    rng = random.Random(seed)
    cases: list[tuple[list[int], int]] = [([1, 1], 1), ([4, 4, 4], 3), ([3, 5, 2], 4), ([2, 6], 5)]
    for number in range(16):
        num_layers = 1 + number % 4
        width = rng.randint(2, 5)
        widths = [width if number % 2 else rng.randint(2, 6) for _ in range(num_layers + 1)]
        cases.append((widths, rng.randint(1, 5)))
    return [named(HALVES_NAMES, (*each, 100 * seed + n)) for n, each in enumerate(cases)]


@declares_check(
    "u12-halves",
    half_cases,
    observer=halves,
    fallback="course_utils.reference.split_backward.backward_in_halves",
    give_away=("course_utils.reference.split_backward",),
)
def measured_halves(**case: Any) -> dict[str, Any]:
    """Gradients that autograd finds; one product for each layer in either half."""
    weights, kept, upstream = halves.tensors_of(case)
    leaves = [each.requires_grad_() for each in (kept[0], *weights)]
    result = leaves[0]
    for weight in leaves[1:]:
        result = torch.tanh(result @ weight)
    gradient, *of_weights = torch.autograd.grad(result, leaves, upstream)
    products = sum(2 * case["rows"] * weight.numel() for weight in weights)
    return {
        "input_checksum": checksum(gradient, gradient),
        "weight_gradients": len(weights),
        "weights_checksum": math.fsum(checksum(each, each) for each in of_weights),
        "flops_now": products,
        "flops_later": products,
        "gradient": gradient,
        "of_weights": of_weights,
    }


# === u12-zero
# Lists with backward passes in halves, followed by the simulator of pipelines.


def zero_cases(seed: int) -> list[Case]:
    """As many micro-batches as stages, more, fewer; one stage, one micro-batch."""
    return cases_of((1, 2), random.Random(seed))


def greedy(scenario: str, num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """I, or else F while there is room, or else W."""
    schedule = greedy_halves(num_stages, num_micro_batches, most_in_flight=num_stages)
    return {"seconds": int(simulate_pipeline(schedule, num_micro_batches).seconds)}


GREEDY = Symptom(
    "Every stage takes what is best at the moment: I, or else F, or else W. Which room does an F "
    "take that comes earlier than anybody needs it, and which W must then come early too?",
    greedy,
)


@declares_check(
    "u12-zero",
    zero_cases,
    observer=zero_lists,
    symptoms=(GREEDY,),
    scenarios=(MANY, FEW),
    fallback="course_utils.reference.pipeline_schedules.zero_bubble",
    give_away=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
def measured_zero(scenario: str, num_stages: int, num_micro_batches: int) -> dict[str, int]:
    """The later of two bounds, and p micro-batches in flight.

    The last stage begins after the way down, and has F, I and W of each micro-batch to do. Or: it
    does all F and I at once, then the last gradient comes all the way up, and stage 0 does its W.
    """
    down = up = num_stages - 1
    last_stage = down + 3 * num_micro_batches
    last_gradient = down + 2 * num_micro_batches + up + 1
    held = [min(num_stages, num_micro_batches)] * num_stages
    return right_numbers(num_stages, max(last_stage, last_gradient), held)


# === u12-interleaved
# The lists of interleaved 1F1B, followed by the simulator of pipelines.


INTERLEAVED_NAMES = ("num_stages", "num_micro_batches", "num_chunks")


def interleaved_cases(seed: int) -> list[Case]:
    """One group of micro-batches and several; one chunk, one stage."""
    rng = random.Random(seed)
    groups, chunks, stages = rng.randint(2, 5), rng.randint(2, 4), rng.randint(2, 6)
    sizes = [(2, 2, 2), (4, 4 * groups, 2), (stages, stages, chunks), (3, 3 * groups, 1)]
    sizes += [(1, rng.randint(2, 20), chunks), (stages, stages * groups, 4), (stages, stages, 3)]
    for _ in range(14):
        num_stages = rng.randint(2, 5)
        sizes.append((num_stages, num_stages * rng.randint(1, 5), rng.randint(2, 4)))
    return [named(INTERLEAVED_NAMES, each) for each in sizes]


@declares_check(
    "u12-interleaved",
    interleaved_cases,
    observer=interleaved_lists,
    fallback="course_utils.reference.pipeline_schedules.interleaved",
    give_away=ANSWERS,
    forbidden_modules=FORBIDDEN,
)
def measured_interleaved(
    num_stages: int, num_micro_batches: int, num_chunks: int
) -> dict[str, int]:
    """The fewest seconds, with messages and without; what each stage holds, as Megatron does.

    No micro-batch can be faster than all messages on its way down and up. Ahead of a first B come,
    on the last stage, the first group in all chunks but the last one; on each stage above two more.
    """
    passes = num_micro_batches * num_chunks
    seconds = fewest_seconds(num_stages, passes)
    messages = 2 * (num_stages * num_chunks - 1) if num_stages > 1 else 0
    on_last = (num_chunks - 1) * num_stages + 1
    held = [min(passes, on_last + 2 * above) for above in reversed(range(num_stages))]
    return right_numbers(num_stages, seconds, held, tenths=10 * seconds + messages)


# === u12-stages
# A cut of a model into stages, against every cut there is.


def stage_cases(seed: int) -> list[Case]:
    """Equal pieces and unequal ones, heavy ends, as many pieces as stages, one stage."""
    rng = random.Random(seed)
    few = [rng.randint(1, 9) for _ in range(3)]
    cases: list[tuple[list[int], int]] = [([0, 2, 2, 2, 2, 5], 3), ([few[0]] * 8, 4), (few, 3)]
    cases += [(few[::-1], 1), ([0, *[few[1]] * 8, 2 * few[1] + 1], 4)]
    cases += [([0, *[1] * rng.randint(6, 12), 9], 4), ([1, 1, rng.randint(6, 30), 1, 1], 3)]
    for number in range(15):
        num_stages = rng.randint(2, 4)
        seconds = [rng.randint(1, 9) for _ in range(rng.randint(num_stages + 1, 9))]
        if number % 3 == 0:
            seconds = [0, *[seconds[0]] * (len(seconds) - 2), 2 * seconds[0] + 1]
        cases.append((seconds, num_stages))
    return [{"seconds": seconds, "num_stages": number} for seconds, number in cases]


@declares_check(
    "u12-stages",
    stage_cases,
    observer=stages,
    fallback="course_utils.formulas.pipeline.cut_into_stages",
    give_away=("course_utils.formulas.pipeline",),
)
def searched(seconds: list[int], num_stages: int) -> dict[str, int]:
    """The slowest stage of the best of all cuts."""
    places = itertools.combinations(range(1, len(seconds)), num_stages - 1)
    cuts = ([0, *inner, len(seconds)] for inner in places)
    slowest = min(max(sum(seconds[a:b]) for a, b in itertools.pairwise(cut)) for cut in cuts)
    return {"stages": num_stages, "pieces": len(seconds), "slowest": slowest}


# === u12-messages
# The bytes between stages: the messages that real ranks send are counted.


MESSAGES_NAMES = ("num_stages", "num_chunks", "num_micro_batches", "tensor_bytes", "is_v")


def message_cases(seed: int) -> list[Case]:
    """Looped and V; one stage, one chunk; bytes beyond 2⁵³."""
    rng = random.Random(seed)
    few, many = rng.randint(3, 99), 2**53 + 2 * rng.randint(0, 99) + 1
    sizes = [
        (2, 2, 3, 10, False),
        (2, 2, 3, few, True),
        (1, 3, 2, few, False),
        (1, 2, 2, few, True),
    ]
    sizes += [(3, 1, 2, few, False), (3, 1, 2, few, True), (3, 2, 1, many, False)]
    sizes += [(2, 3, 2, many, True)]
    for number in range(12):
        shape = rng.randint(2, 4), rng.randint(2, 3), rng.randint(1, 3)
        sizes.append((*shape, rng.randint(3, 99), bool(number % 2)))
    return [named(MESSAGES_NAMES, each) for each in sizes]


@declares_check(
    "u12-messages", message_cases, fallback="course_utils.formulas.pipeline.boundary_bytes"
)
def sent(
    num_stages: int, num_chunks: int, num_micro_batches: int, tensor_bytes: int, is_v: bool
) -> int:
    """Messages of all ranks that run a step, each counted with the given bytes."""
    placement = Placement(num_stages, num_chunks, is_v)
    micro_batches = [torch.zeros(1, 1) for _ in range(num_micro_batches)]
    forward: list[Action] = [
        ("F", k, chunk) for chunk in range(num_chunks) for k in range(num_micro_batches)
    ]
    backward: list[Action] = [("B", k, num_chunks - 1 - chunk) for _, k, chunk in forward]
    schedule = [forward + backward] * num_stages

    def step(comm: Comm) -> None:
        modules = [nn.Linear(1, 1) for _ in range(num_chunks)]
        run_stage(
            comm, schedule, placement, modules=modules, micro_batches=micro_batches, loss=torch.sum
        )

    run = VirtualCluster(num_stages).run(step)
    return tensor_bytes * sum(len(run.sent_by(rank)) for rank in range(num_stages))


# === u12-simulator
# A simulator of pipelines, against the course's: orders of every kind, deadlocks.


Lists = list[list[Action]]
STUCK: Lists = [
    [("F", 0, 0), ("B", 0, 0), ("F", 1, 0), ("B", 1, 0)],
    [("F", 0, 0), ("F", 1, 0), ("B", 0, 0), ("B", 1, 0)],
]


def simulator_cases(seed: int) -> list[Case]:
    """GPipe and 1F1B, orders at random that can be followed, and some that cannot."""
    rng = random.Random(seed)
    one, two = rng.randint(1, 30), rng.randint(1, 30)
    schedules: list[tuple[Lists, int, int]] = [(gpipe(2, 2), 1, 2), (STUCK, one, two)]
    schedules += [
        (one_forward_one_backward(3, 5), 1, two),
        ([[("B", 0, 0), ("F", 0, 0)]], one, one),
    ]
    schedules += [(one_forward_one_backward(3, 4)[::-1], one, two), (gpipe(1, 3), 4 * one, one)]
    for number in range(16):
        seconds = rng.randint(1, 5), rng.randint(1, 9)
        num_stages, m = rng.randint(2, 4), rng.randint(2, 4)
        schedule = [_followed, _shuffled][number % 4 == 3](num_stages, m, rng)
        schedules.append((schedule, *seconds))
    names = ("schedule", "forward_seconds", "backward_seconds")
    return [named(names, each) for each in schedules]


def _followed(num_stages: int, num_micro_batches: int, rng: random.Random) -> Lists:
    """Lists of actions that were done in some order that is possible."""
    schedule: Lists = [[] for _ in range(num_stages)]
    steps = [(kind, stage) for kind in "FB" for stage in range(num_stages)]
    steps[num_stages:] = reversed(steps[num_stages:])
    position = [0] * num_micro_batches
    while left := [k for k in range(num_micro_batches) if position[k] < len(steps)]:
        k = rng.choice(left)
        kind, stage = steps[position[k]]
        schedule[stage].append((kind, k, 0))
        position[k] += 1
    return schedule


def _shuffled(num_stages: int, num_micro_batches: int, rng: random.Random) -> Lists:
    return [rng.sample(each, len(each)) for each in gpipe(num_stages, num_micro_batches)]


@declares_check("u12-simulator", simulator_cases, give_away=("course_utils.instruments.pipeline",))
def simulated_simulator(schedule: Lists, forward_seconds: int, backward_seconds: int) -> int:
    """What the course's simulator says."""
    seconds = PassSeconds(
        forward=forward_seconds, input_gradient=backward_seconds, weight_gradient=0
    )
    run = simulate_pipeline(schedule, len(schedule[0]) // 2, seconds=seconds)
    return -1 if run.waiting else int(run.seconds)
