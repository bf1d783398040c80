"""Check of what is read from the trace of a step of DDP, on traces of a small model of one."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from course_utils.instruments.overlap import measure_overlap

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


def measured(events: list[Event]) -> dict[str, int]:
    """First bucket and tail from sorted events; what is exposed, by the course's instrument."""
    trace = {
        "traceEvents": [
            {
                **{"ph": "X", "cat": "cpu_op", "name": each["name"]},
                **{"ts": each["start_ns"], "dur": each["end_ns"] - each["start_ns"]},
            }
            for each in events
        ]
    }  # a nanosecond stands for a microsecond here, so that all of it stays whole
    in_order = sorted(events, key=lambda each: each["start_ns"])
    ends = {
        is_sent: sorted(each["end_ns"] for each in events if each["name"].startswith(name))[-1]
        for is_sent, name in ((True, ALL_REDUCE), (False, "autograd::"))
    }
    return {
        "first_bytes": next(each["bytes"] for each in in_order if each["name"] == ALL_REDUCE),
        "tail_ns": ends[True] - ends[False],
        "exposed_ns": round(1e6 * measure_overlap(trace).exposed_seconds),
    }


CHECK = Check(
    cases=step_cases,
    judge=EqualTo(measured, *mistakes_of("u09-read-step")),
    fallback="course_utils.reference.step_trace.read_step",
    answers=("course_utils.instruments.overlap",),
)
