"""The checks of unit 09 on gradients."""

import functools
import math
import random
from fractions import Fraction
from typing import Any

import torch

from autograder.checking.exercise_check import Case, named
from autograder.checking.mistakes import Symptom
from autograder.checking.precision import tolerance
from autograder.exercises.backward_steps import BUCKETERS
from autograder.exercises.declaring import declares_check
from autograder.exercises.searching import least
from autograder.observers import after_backward
from autograder.observers.after_backward import (
    Net,
    frozen,
    gradients_of,
    losses_of,
    ranks_of,
    trained,
)
from autograder.observers.on_ranks import FLOAT64_BYTES
from autograder.observers.tools import length_of
from autograder.observers.u09 import dropout, flat, global_mean, ring
from autograder.observers.u09.dropout import model_of
from course_utils.traces import Event as TracedEvent
from course_utils.traces import exposed_seconds, made

# === u09-global-mean
# A rank's share of the mean loss over the targets of all ranks.


GLOBAL_MEAN_SCENARIOS = ("ragged", "equal", "a rank without")
NUM_CASES_EACH = 5
# Two of them are more than 2**15, three less than fp16's largest; 1 modulo 8 is not exact in fp16.
LARGE = range(2**14 + 1, 21_000, 8)
# One is more than float32 counts, two are more than int32 does; rounded to float32 each loses 63.
HUGE = range(3 * 2**29 + 63, 2**31, 128)


def _num_targets(scenario: str, num_ranks: int, is_large: bool, rng: random.Random) -> list[int]:
    possible = LARGE if is_large else range(1, 30)
    counts = rng.sample(possible, num_ranks)
    if scenario == "equal":
        return [counts[0]] * num_ranks
    if scenario == "a rank without":
        counts[rng.randrange(num_ranks)] = 0
    return counts


def share_cases(seed: int) -> list[Case]:
    """Each scenario on two to four ranks, with few targets and many.

    Equal numbers also on one rank; no targets at all; billions of targets.
    """
    rng = random.Random(seed)
    cases = [_global_mean_case("ragged", [3, 1], [6.0, 4.0])]
    for scenario in GLOBAL_MEAN_SCENARIOS:
        for number in range(NUM_CASES_EACH):
            is_large = number == NUM_CASES_EACH - 1
            num_ranks = 3 if is_large else rng.randint(2, 4)  # a third is not exact in a float
            if (scenario, number) == ("equal", 0):
                num_ranks = 1
            counts = _num_targets(scenario, num_ranks, is_large, rng)
            losses = [round(n * rng.uniform(1, 4), 3) for n in counts]
            cases.append(_global_mean_case(scenario, counts, losses))
    huge = rng.sample(HUGE, 2)
    cases.append(_global_mean_case("ragged", huge, [2.0 * huge[0], 3.0 * huge[1]]))
    without = [[0] * num_ranks for num_ranks in rng.sample(range(1, 17), 5)]
    return cases + [
        _global_mean_case("a rank without", counts, [0.0] * len(counts)) for counts in without
    ]


def _global_mean_case(scenario: str, num_targets: list[int], summed_losses: list[float]) -> Case:
    return {"scenario": scenario, "num_targets": num_targets, "summed_losses": summed_losses}


@declares_check(
    "u09-global-mean",
    share_cases,
    observer=global_mean,
    scenarios=GLOBAL_MEAN_SCENARIOS,
    relative_tolerance=tolerance(cancelled=4),
    fallback="course_utils.reference.gradient_sync.share_of_mean",
    give_away=("course_utils.reference.gradient_sync.share_of_mean",),
)
def measured_global_mean(
    scenario: str, num_targets: list[int], summed_losses: list[float]
) -> dict[str, float]:
    """The mean of all targets' losses; the gradient of a square at one is twice it."""
    mean = sum(summed_losses) / max(1, sum(num_targets))
    return {"shares": mean, "gradient": 2 * mean, "calls": 1}


# === for several exercises
# Gradients summed after the backward pass, in one call for each parameter or in one for all.


AFTER_BACKWARD_SCENARIOS = ("all used", "unused on a rank", "frozen", "gradients before")
AFTER_BACKWARD_NAMES = (
    "scenario",
    "num_ranks",
    "width",
    "num_layers",
    "is_bias_shared",
    "is_transposed",
)
NUM_CASES = 20
MOST_RANKS = 4

# What does the same, and so answers these exercises.
TRAINERS = ("course_utils.reference.gradient_sync", *BUCKETERS)


def cases_of(scenarios: tuple[str, ...], seed: int, transposed: tuple[str, ...] = ()) -> list[Case]:
    """Each scenario on one to four ranks, on four with a bias that two layers share.

    For memory, layers are large beside their inputs. In the scenarios called transposed a weight is
    stored so on four ranks.
    """
    rng = random.Random(seed)
    cases = [_after_backward_case("all used", 2, 3, 2, False, False)]
    for scenario in scenarios:
        first = 2 if scenario == "unused on a rank" else 1  # alone, no other rank has a gradient
        for num_ranks in (first, 2, MOST_RANKS, 2, 3)[: NUM_CASES // len(scenarios)]:
            width = rng.randint(16, 24) if scenario == "memory" else rng.randint(2, 9)
            is_shared = num_ranks == MOST_RANKS and scenario != "memory"
            is_transposed = num_ranks == MOST_RANKS and scenario in transposed
            num_layers = 1 + (num_ranks == 2)
            cases.append(
                _after_backward_case(
                    scenario, num_ranks, width, num_layers, is_shared, is_transposed
                )
            )
    return cases


def _after_backward_case(*values: Any) -> Case:
    return named(AFTER_BACKWARD_NAMES, values)


def measured_after_backward(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch, computed on one rank; a call for each parameter."""
    model = Net(case)
    for rank in range(case["num_ranks"]):
        for loss in losses_of(model, case, rank):
            loss.backward()
    gradients = gradients_of(trained(model))
    return {
        "calls": len(gradients),
        "bytes": sum(each.nbytes for each in trained(model)),
        "length": length_of(gradients),
        "length_on_last": length_of(gradients),
        "gradients": gradients,
        "frozen": [gradients_of(frozen(each)) for each, _ in ranks_of(case)],
    }


# === u09-each
# Gradients summed after the backward pass, in one call for each parameter.


declares_check(
    "u09-each",
    functools.partial(cases_of, AFTER_BACKWARD_SCENARIOS),
    observer=after_backward,
    scenarios=AFTER_BACKWARD_SCENARIOS,
    fallback="course_utils.reference.gradient_sync.backward_each",
    give_away=TRAINERS,
)(measured_after_backward)


# === u09-hidden
# The fewest tokens on a rank with which an all-reduce hides behind backward.


HIDDEN_NAMES = (
    "num_params",
    "num_ranks",
    "bytes_per_element",
    "bytes_per_second",
    "flops_per_second",
)


def hidden_cases(seed: int) -> list[Case]:
    """One rank and many, slow and fast links; every third result is a whole number.

    Some are so nearly whole that a float cannot tell; some rings move a fraction of a byte.
    """
    rng = random.Random(seed)
    cases = [
        _hidden_case(1024, 4, 2, 64, 512),
        _hidden_case(64 * rng.randint(16, 99), 1, 2, 64, 512),
    ]
    num_params = rng.randint(1, 99) * 10**9
    cases.append(
        _hidden_case(num_params, 2, 2, 25 * 10**9, 312 * 10**12)
    )  # 6,240: a float may miss it
    for number in range(20):
        num_params = rng.randint(2, 90) * 10**6 + rng.randint(1, 999)
        if number % 3 == 0:  # powers of two
            ranks, rate = 2 ** rng.randint(1, 5), 2 ** rng.randint(20, 24)
            cases.append(_hidden_case(num_params, ranks, 2 * rng.randint(1, 2), rate, rate * 2**9))
            continue
        ranks = rng.choice((3, 5, 6, 7, 11, 12))
        rate, flops = rng.randint(20, 400) * 10**6 + 7, rng.randint(100, 900) * 10**9 + 1
        cases.append(_hidden_case(num_params, ranks, rng.choice((2, 4)), rate, flops))
    cases += [_nearly_even(rng, side) for side in (1, -1, 1, -1)]
    return cases + [_few_params(rng) for _ in range(2)]


def _nearly_even(rng: random.Random, side: int) -> Case:
    """Tokens above or below a whole number by about one part in 10**16."""
    ranks = 2 ** rng.randint(9, 11)
    tokens = rng.choice([n for n in range(150, 256) if math.gcd(n, ranks - 1) == 1])
    rate = rng.randint(19 * 10**10, 21 * 10**10)
    # The result is (ranks - 1) * flops / (ranks * rate). It differs from `tokens` by
    # side / (ranks * rate) if ranks * rate * tokens + side is a multiple of ranks - 1. As ranks
    # is 1 modulo ranks - 1, the rate has to be -side / tokens there.
    rate += (-side * pow(tokens, -1, ranks - 1) - rate) % (ranks - 1)
    flops, remainder = divmod(ranks * rate * tokens + side, ranks - 1)
    assert remainder == 0
    return _hidden_case(rng.randint(2, 90) * 10**6, ranks, 2, rate, flops)


def _few_params(rng: random.Random) -> Case:
    """No rank holds a whole number of bytes; computing a token is quicker than sending a byte."""
    rate = rng.randint(10, 99)
    return _hidden_case(rng.choice((1, 2, 4)), rng.choice((3, 7, 11)), 2, rate, rate * 10**6 + 1)


def _hidden_case(*values: int) -> Case:
    return named(HIDDEN_NAMES, values)


def _exact(
    num_params: int,
    num_ranks: int,
    bytes_per_element: int,
    bytes_per_second: int,
    flops_per_second: int,
) -> Fraction:
    dividend = bytes_per_element * (num_ranks - 1) * flops_per_second
    return Fraction(dividend, 2 * num_ranks * bytes_per_second)


def _can_be_missed(*values: int) -> bool:
    """Whether a float may miss it: (nearly) whole, and the rate is not a power of two."""
    exact, rate = _exact(*values), values[3]
    is_near = abs(exact - round(exact)) < round(exact) * Fraction(1, 10**12)
    return is_near and rate & (rate - 1) != 0


def _missed(by: int) -> Any:
    return lambda *values: math.ceil(_exact(*values)) + by if _can_be_missed(*values) else {}


MISSED = (
    "Off by one token where the two times are (nearly) equal. What does a float make of "
    "a third, and which whole numbers could you compare instead?"
)


@declares_check(
    "u09-hidden",
    hidden_cases,
    symptoms=(
        Symptom(MISSED, _missed(1)),
        Symptom(MISSED, _missed(-1)),
    ),
    fallback="course_utils.formulas.communication.min_hiding_tokens",
)
def searched(
    num_params: int,
    num_ranks: int,
    bytes_per_element: int,
    bytes_per_second: int,
    flops_per_second: int,
) -> int:
    """The fewest tokens by bisection on the two times, in fractions, without their formula."""
    part = Fraction(num_params * bytes_per_element, num_ranks)  # bytes of one part of the ring
    all_reduce = 2 * (num_ranks - 1) * part / bytes_per_second

    def is_hidden(tokens: int) -> bool:
        return Fraction(2 * 2 * num_params * tokens, flops_per_second) >= all_reduce

    return least(is_hidden)


# === u09-ring
# An all-reduce made of messages: sums, messages, bytes and virtual time.


RING_SCENARIOS = ("even parts", "uneven parts", "few numbers or one rank")
NUM_CASES_ALONE = 4


def _shape(scenario: str, number: int, num_ranks: int, rng: random.Random) -> list[int]:
    length = rng.randint(2, 12)
    if (scenario, num_ranks) == ("uneven parts", 4):  # `chunk` makes only three parts of it
        return [rng.choice((5, 6, 9))]
    if scenario == "uneven parts":
        return [num_ranks * length + rng.randint(1, num_ranks - 1)]
    if scenario == "few numbers or one rank":
        return [rng.randint(1, num_ranks - 1)]
    if scenario == "even parts" and number % 2:  # rows that cannot be shared evenly
        return [num_ranks + 1, num_ranks * length]
    return [num_ranks * length]


def ring_cases(seed: int) -> list[Case]:
    """Each scenario on several numbers of ranks, even and odd ones; vectors and matrices.

    One rank of several begins with an infinite number.
    """
    rng = random.Random(seed)
    cases = [_ring_case("even parts", 3, [6])]
    for scenario in RING_SCENARIOS:
        first = 3 if scenario == "few numbers or one rank" else 2
        sizes = [first, 3, 4, 3, first]
        for number, num_ranks in enumerate(sizes):
            cases.append(_ring_case(scenario, num_ranks, _shape(scenario, number, num_ranks, rng)))
    cases.append(_ring_case("even parts", 3, [3 * rng.randint(2, 4)], num_infinite=1))
    alone = [[rng.randint(1, 60)] for _ in range(NUM_CASES_ALONE)]
    return cases + [_ring_case("few numbers or one rank", 1, shape) for shape in alone]


def _ring_case(scenario: str, num_ranks: int, shape: list[int], num_infinite: int = 0) -> Case:
    return {
        "scenario": scenario,
        "num_ranks": num_ranks,
        "shape": shape,
        "num_infinite": num_infinite,
    }


@declares_check(
    "u09-ring",
    ring_cases,
    observer=ring,
    first_symptoms=(
        Symptom(
            "One rank talks to all others, and the rest are idle while it does. How could all "
            "links be busy at the same time?",
            lambda scenario, d, *_: {
                "most_messages": d - 1,
                "fewest_messages": 1,
                "wrong_sums": 0,
            },
        ),
        Symptom(
            "Every rank sends the whole tensor, once for each of the others. If each part of the "
            "sum were made on one rank only, how much would have to travel?",
            lambda scenario, d, *_: {
                "most_messages": d - 1,
                "fewest_messages": d - 1,
                "wrong_sums": 0,
            },
        ),
    ),
    symptoms=(
        Symptom(
            "Messages and bytes are right, the sums are not. With 1, 10 and 100 on three ranks: "
            "after two turns, which part of each rank holds 111, and is it the one that goes out "
            "in the third?",
            lambda scenario, d, *_: {"of_one_rank": 1, "too_large_sums": 1, "wrong_sums": 1},
        ),
    ),
    scenarios=RING_SCENARIOS,
    fallback="course_utils.reference.ring.ring_all_reduce",
    give_away=("course_utils.reference.ring.ring_all_reduce",),
)
def measured_ring(
    scenario: str, num_ranks: int, shape: list[int], num_infinite: int
) -> dict[str, Any]:
    """Two rounds on a ring, with at most the largest part in each message; the sums."""
    messages = 2 * (num_ranks - 1)
    num_bytes = messages * FLOAT64_BYTES * -(-math.prod(shape) // num_ranks)
    before = [ring.tensor_of(rank, shape, num_infinite) for rank in range(num_ranks)]
    return {
        "most_messages": messages,
        "fewest_messages": messages,
        "sent_bytes": num_bytes,
        "received_bytes": num_bytes,
        "before": before,
        "total": torch.stack(before).sum(0),
    }


# === u09-flat
# Gradients summed after the backward pass, in one call for all.


FLAT_SCENARIOS = (*AFTER_BACKWARD_SCENARIOS, "memory")


@declares_check(
    "u09-flat",
    functools.partial(cases_of, FLAT_SCENARIOS, transposed=("gradients before",)),
    observer=flat,
    scenarios=FLAT_SCENARIOS,
    fallback="course_utils.reference.gradient_sync.backward_flat",
    give_away=TRAINERS,
)
def measured_flat(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch, in one call, with one buffer besides the gradients."""
    numbers = {"calls": 1, "sets_at_peak": 2, "sets_afterwards": 1}
    return measured_after_backward(**case) | numbers


# === u09-dropout
# Ranks that begin with equal weights and continue with different random numbers.


KINDS = ("flat", "nested", "shared", "counting", "shared")


def begin_cases(seed: int) -> list[Case]:
    """Layers in a row, nested, or sharing a weight, on two to four ranks.

    All have a buffer of fractions; some, where it is not saved, have a counter as well, and some
    a frozen layer.
    """
    rng = random.Random(seed)
    cases = [_dropout_case([2, 3, 4], 2, 7, "flat")]
    for most_ranks in (2, 3, 2, 4):
        for kind, num_ranks in zip(KINDS, (2, 2, most_ranks, 2, 2), strict=True):
            width = rng.randint(2, 4)
            widths = [width] * 3 if kind == "shared" else [width, rng.randint(2, 4), width]
            cases.append(_dropout_case(widths, num_ranks, rng.randint(1, 10**6), kind))
    return cases


def _dropout_case(widths: list[int], num_ranks: int, seed: int, kind: str) -> Case:
    return {"widths": widths, "num_ranks": num_ranks, "seed": seed, "kind": kind}


def _first_number(seed: int) -> float:
    return torch.rand((), generator=torch.Generator().manual_seed(seed)).item()


@declares_check(
    "u09-dropout",
    begin_cases,
    observer=dropout,
    give_away=("course_utils.reference.bucketing.start_equal",),
)
def measured_dropout(**case: Any) -> dict[str, Any]:
    """Rank 0's weights everywhere, sent once, and another seed for each rank."""
    model = model_of(case, rank=0)
    weights, buffers = list(model.parameters()), list(model.buffers())
    return {
        "bytes": sum(each.nbytes for each in weights + buffers),
        "weights": weights,
        "wants_gradient": [each.requires_grad for each in weights],
        "buffers": buffers,
        "numbers": [_first_number(case["seed"] + rank) for rank in range(case["num_ranks"])],
    }


# === u09-read-step
# What is read from the trace of a step of DDP, on traces of a small model of one.


Event = dict[str, Any]
NODE = "autograd::engine::evaluate_function: "
PRODUCT, FILLED = f"{NODE}MmBackward0", f"{NODE}torch::autograd::AccumulateGrad"
HAND_OVER, ALL_REDUCE = "c10d::allreduce_", "gloo:all_reduce"
COPY = "torch.distributed.ddp.reducer::copy_bucket_to_grad"


def step_cases(seed: int) -> list[Case]:
    """Few layers and more, slow links and fast ones, events in the order of time and in any.

    In every third, the last bucket is small, and the one before it ends later.
    """
    rng = random.Random(seed)
    worked = [
        _event(PRODUCT, 0, 0, 30),
        _event(FILLED, 0, 30, 34),
        _event(HAND_OVER, 0, 32, 33, 800),
        _event(PRODUCT, 0, 36, 50),
        _event(FILLED, 0, 50, 54),
        _event(HAND_OVER, 0, 52, 53, 400),
        _event(ALL_REDUCE, 1, 33, 60, 800),
        _event(ALL_REDUCE, 2, 53, 70, 400),
        _event(COPY, 0, 60, 63),
    ]
    return [{"events": worked}, *({"events": _step(rng, number)} for number in range(21))]


def _event(name: str, thread: int, start: int, end: int, num_bytes: int = 0) -> Event:
    times = {"start_ns": start, "end_ns": end}
    return {"name": name, "thread": thread, **times, "bytes": num_bytes}


def _step(rng: random.Random, number: int) -> list[Event]:
    """A step whose buckets each hold a layer; two threads send, each one bucket at a time."""
    num_layers, events, now = rng.randint(2, 4), list[Event](), 0
    for _ in range(num_layers):
        end = now + rng.randint(50, 900)
        events.append(_event("aten::linear", 0, now, end))
        now = end + rng.randint(1, 9)
    sizes = [4 * rng.randint(100, 900) for _ in range(num_layers)]
    per_byte = rng.choice((1, 2)) if number % 2 else rng.choice((0.2, 0.4))
    if number % 3 == 0:  # the last bucket overtakes a large one
        sizes[-2:], per_byte = [4000, 4], 2
    if number % 3 == 1:  # the first is neither the largest nor the last
        sizes[1] = max(sizes) + 4
    ends = {1: 0, 2: 0}
    for size in sizes:
        end = now + rng.randint(50, 900)
        events.append(_event(PRODUCT, 0, now, end))
        now = end + rng.randint(1, 30)  # between two nodes
        start, call = now, now + rng.randint(2, 40)
        now = call + rng.randint(5, 20)
        events.append(_event(FILLED, 0, start, now + 2))
        events.append(_event(HAND_OVER, 0, call, now, size))
        thread = min(ends, key=lambda each: ends[each])
        begin = max(now, ends[thread])
        ends[thread] = begin + round(per_byte * size) + rng.randint(20, 60)
        events.append(_event(ALL_REDUCE, thread, begin, ends[thread], size))
        now += 2 + rng.randint(1, 30)
    done = [each["end_ns"] for each in events if each["name"] == ALL_REDUCE]
    for end in done:  # in the order of the buckets
        now = max(now, end) + rng.randint(1, 9)
        events.append(_event(COPY, 0, now, now + rng.randint(3, 30)))
        now = events[-1]["end_ns"]
    return rng.sample(events, len(events)) if number % 4 else events


def _as_traced(event: Event) -> TracedEvent:
    kind = "communication" if event["name"] == ALL_REDUCE else "cpu_op"
    times = {"start_ns": event["start_ns"], "end_ns": event["end_ns"]}
    return made(kind=kind, name=event["name"], **times)


@declares_check(
    "u09-read-step",
    step_cases,
    fallback="course_utils.reference.step_trace.read_step",
    give_away=("course_utils.traces.times",),
)
def measured_read_step(events: list[Event]) -> dict[str, int]:
    """First bucket and tail from sorted events; what is exposed, by the course's instrument."""
    in_order = sorted(events, key=lambda each: each["start_ns"])
    ends = {
        is_sent: sorted(each["end_ns"] for each in events if each["name"].startswith(name))[-1]
        for is_sent, name in ((True, ALL_REDUCE), (False, "autograd::"))
    }
    return {
        "first_bytes": next(each["bytes"] for each in in_order if each["name"] == ALL_REDUCE),
        "tail_ns": ends[True] - ends[False],
        "exposed_ns": round(1e9 * exposed_seconds(map(_as_traced, events))),
    }
