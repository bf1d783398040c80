"""The check of unit 10 on messages with nothing to hide behind, in recorded steps and made ones."""

import functools
import random
from typing import Any

from autograder.checking.exercise_check import Case
from autograder.exercises.declaring import declares_check
from course_utils import traces
from course_utils.records.traces import recorded_trace
from course_utils.traces import COMPUTE, busy_seconds, exposed_seconds, made, select

Event = dict[str, Any]

GATHER, SCATTER, KERNEL = "AllGather_RING", "ReduceScatter_RING", "gemm"
RECORDED = ("h100x8_nanogpt_before", "h100x8_nanogpt_after", "h100x8_nanogpt_8ranks")
FEWEST, MOST = 12, 48  # events of a case
NUM_EACH = 12


def overlap_cases(seed: int) -> list[Case]:
    """Pieces of recorded steps; made steps, in which both kinds of messages run at once, too."""
    rng = random.Random(seed)
    worked = [
        _event("communication", GATHER, 0, 30),
        _event("kernel", KERNEL, 20, 50),
        _event("kernel", KERNEL, 60, 90),
        _event("communication", SCATTER, 40, 70),
        _event("communication", GATHER, 65, 100),
    ]
    cases: list[Case] = [{"events": worked}]
    cases += [{"events": _recorded_piece(rng, number)} for number in range(NUM_EACH)]
    cases += [{"events": _made_step(rng, number)} for number in range(NUM_EACH)]
    return cases


def _event(kind: str, name: str, start: int, end: int) -> Event:
    return {"kind": kind, "name": name, "start_ns": start, "end_ns": end}


@functools.cache
def _recorded(name: str) -> dict[int, list[Event]]:
    """Kernels and messages of each rank of a record, in the order of time."""
    events = select(recorded_trace(name), kind=(*COMPUTE, "communication"))
    return {
        rank: [_as_shown(each) for each in sorted(own, key=lambda each: each["start_ns"])]
        for rank, own in traces.by_rank(events).items()
    }


def _as_shown(event: traces.Event) -> Event:
    kind = "communication" if event["kind"] == "communication" else "kernel"
    return _event(kind, event["name"], event["start_ns"], event["end_ns"])


def _recorded_piece(rng: random.Random, number: int) -> list[Event]:
    """Some events in a row of one rank, with both kinds of messages, of which some are hidden."""
    of_ranks = _recorded(RECORDED[number % len(RECORDED)])
    while True:
        events = of_ranks[rng.choice(sorted(of_ranks))]
        begin = rng.choice([n for n, e in enumerate(events) if e["kind"] == "communication"])
        piece = events[max(0, begin - rng.randint(0, FEWEST)) :][: rng.randint(FEWEST, MOST)]
        found = measured_overlap(piece)
        if found["exposed_scatters_ns"] and 0 < found["exposed_gathers_ns"] < found["gathers_ns"]:
            shifted = [_shifted(each, -piece[0]["start_ns"]) for each in piece]
            return rng.sample(shifted, len(shifted)) if number % 4 else shifted


def _shifted(event: Event, by: int) -> Event:
    return event | {key: event[key] + by for key in ("start_ns", "end_ns")}


def _made_step(rng: random.Random, number: int) -> list[Event]:
    """Streams of kernels, gathers and scatters; in three of four, one of them has a second."""
    at_once = number % 4
    lanes = [("kernel", KERNEL), ("communication", GATHER), ("communication", SCATTER)]
    lanes += [("kernel", "attention")] if at_once == 1 else []
    lanes += [("communication", GATHER)] if at_once == 2 else []
    lanes += [("communication", SCATTER)] if at_once == 3 else []
    events = []
    for kind, name in lanes:
        now = rng.randint(0, 200)
        for _ in range(rng.randint(3, 5)):
            end = now + rng.randint(20, 400)
            events.append(_event(kind, name, now, end))
            now = end + rng.choice((0, rng.randint(1, 300)))
    return rng.sample(events, len(events))


@declares_check(
    "u10-overlap",
    overlap_cases,
    labels={
        "gathers_ns": "nanoseconds in which gathers run",
        "exposed_gathers_ns": "nanoseconds in which gathers are exposed",
        "exposed_scatters_ns": "nanoseconds in which scatters are exposed",
    },
    fallback="course_utils.reference.step_trace.exposed_by_kind",
    give_away=("course_utils.traces.times",),
)
def measured_overlap(events: list[Event]) -> dict[str, int]:
    """By the course's instrument, from the kernels and one kind of message at a time."""
    traced = [made(**each) for each in events]
    kernels = select(traced, kind="kernel")
    gathers, scatters = (
        select(traced, name=f"*{name}*") for name in ("AllGather", "ReduceScatter")
    )
    seconds = {
        "gathers_ns": busy_seconds(gathers),
        "exposed_gathers_ns": exposed_seconds(gathers + kernels),
        "exposed_scatters_ns": exposed_seconds(scatters + kernels),
    }
    return {name: round(1e9 * each) for name, each in seconds.items()}
