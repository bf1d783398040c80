"""The check of unit 09 on the rank for which the others wait, in recorded steps and made ones."""

import functools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograder.checking.exercise_check import Case, named
from autograder.exercises.declaring import declares_check
from course_utils import traces
from course_utils.records.traces import recorded_trace
from course_utils.traces import by_rank, communicating

Event = dict[str, Any]
Starts = NDArray[np.int64]  # (ranks, collectives)

NAMES = ("events", "rank")
WORKED = (
    [(0, 55), (40, 54), (30, 56)],
    [(60, 101), (85, 103), (90, 102)],
)
RECORD = "h100x8_nanogpt_8ranks"
MESSAGES = (("ReduceScatter", 4096), ("AllGather", 4096), ("AllGather", 256))
NUM_EACH = 4  # cases of each kind


def late_cases(seed: int) -> list[Case]:
    """Some collectives of some ranks of the recorded step; made steps in which it is deceptive."""
    rng = random.Random(seed)
    worked = [
        _event(rank, "AllGather", 64, *times) for call in WORKED for rank, times in enumerate(call)
    ]
    cases = [named(NAMES, (worked, 0))]
    for draw, is_wanted in KINDS:
        for number in range(NUM_EACH):
            events = _drawn(functools.partial(draw, rng), is_wanted)
            ranks = sorted({each["rank"] for each in events})
            asked = _straggler(_starts(events)) if number == 0 else rng.choice(ranks)
            shown = rng.sample(events, len(events)) if number else events
            cases.append(named(NAMES, (shown, asked)))
    return cases


def _event(rank: int, name: str, num_bytes: int, start: int, end: int) -> Event:
    times = {"start_ns": start, "end_ns": end}
    return {"rank": rank, "name": name, "bytes": num_bytes, **times}


def _drawn(
    draw: Callable[[], list[Event]], is_wanted: Callable[[list[Event]], bool]
) -> list[Event]:
    """The first step with one straggler, and with one last rank each time, that is as wanted."""
    return next(step for step in iter(draw, None) if _is_clear(step) and is_wanted(step))


@functools.cache
def _recorded() -> list[list[traces.Event]]:
    """The collectives of each rank of the record, in the order of time."""
    return [
        sorted(communicating(events), key=lambda each: each["start_ns"])
        for events in by_rank(recorded_trace(RECORD)).values()
    ]


def _recorded_step(rng: random.Random) -> list[Event]:
    """Some collectives in a row, of some ranks, whose numbers are others."""
    recorded = _recorded()
    length = rng.randint(3, 7)
    begin = rng.randint(0, len(recorded[0]) - length)
    chosen = rng.sample(recorded, rng.randint(3, 6))
    calls = [each[begin : begin + length] for each in chosen]
    origin = min(each[0]["start_ns"] for each in calls)
    return [
        _event(rank, e["name"], e["bytes"], e["start_ns"] - origin, e["end_ns"] - origin)
        for rank, each in enumerate(calls)
        for e in each
    ]


def _made_step(rng: random.Random) -> list[Event]:
    """Ranks leave a collective nearly together, and come to the next one early or late."""
    num_ranks, events = rng.randint(3, 5), list[Event]()
    now = [0] * num_ranks
    for _ in range(rng.randint(4, 6)):
        name, num_bytes = rng.choice(MESSAGES)
        much = rng.choice((100, 400, 1600))
        starts = [each + rng.randint(1, rng.choice((60, much))) for each in now]
        done = max(starts) + num_bytes // 32 + 20
        now = [done + rng.randint(0, 9) for _ in starts]
        events += [
            _event(rank, name, num_bytes, *times)
            for rank, times in enumerate(zip(starts, now, strict=True))
        ]
    return events


def _starts(events: list[Event]) -> Starts:
    ranks = sorted({each["rank"] for each in events})
    of_ranks = [sorted(e["start_ns"] for e in events if e["rank"] == rank) for rank in ranks]
    return np.array(of_ranks, dtype=np.int64)


def _caused(starts: Starts) -> Starts:
    """How long the others wait for each rank."""
    caused = np.zeros(len(starts), dtype=np.int64)
    np.add.at(caused, starts.argmax(axis=0), (starts.max(axis=0) - starts).sum(axis=0))
    return caused


def _straggler(starts: Starts) -> int:
    return int(_caused(starts).argmax())


def _margins(starts: Starts) -> Starts:
    """By how much the last comes after the one before, in each collective."""
    in_order = np.sort(starts, axis=0)
    margins: Starts = in_order[-1] - in_order[-2]
    return margins


def _is_clear(events: list[Event]) -> bool:
    starts = _starts(events)
    before, most = np.sort(_caused(starts))[-2:]
    return bool(before < most and (_margins(starts) > 0).all())


# Steps in which another rank looks like the straggler.


def _is_not_most_often_last(events: list[Event]) -> bool:
    starts = _starts(events)
    (often, times), *others = Counter(starts.argmax(axis=0).tolist()).most_common()
    is_unique = all(each < times for _, each in others)
    return is_unique and often != _straggler(starts)


def _has_not_the_largest_margin(events: list[Event]) -> bool:
    starts = _starts(events)
    return bool(starts[:, _margins(starts).argmax()].argmax() != _straggler(starts))


def _is_not_shortest_inside(events: list[Event]) -> bool:
    """Another one spends the least time in collectives."""
    inside = Counter[int]()
    for each in events:
        inside[each["rank"]] += each["end_ns"] - each["start_ns"]
    return min(inside, key=lambda rank: inside[rank]) != _straggler(_starts(events))


def _does_not_cost_most(events: list[Event]) -> bool:
    """Without another one the step would be shorter."""
    starts = _starts(events)
    costs = np.bincount(starts.argmax(axis=0), weights=_margins(starts))
    return bool(costs.argmax() != _straggler(starts))


KINDS = (
    (_recorded_step, _is_clear),
    (_recorded_step, _is_clear),
    (_made_step, _is_not_most_often_last),
    (_made_step, _has_not_the_largest_margin),
    (_made_step, _is_not_shortest_inside),
    (_made_step, _does_not_cost_most),
)


@declares_check(
    "u09-late",
    late_cases,
    labels={
        "straggler": "the straggler",
        "waiting_ns": "nanoseconds in which the rank waits",
        "saved_ns": "nanoseconds by which the step would be shorter",
    },
    fallback="course_utils.reference.late_rank.who_is_late",
    give_away=("course_utils.traces.collectives",),
)
def measured_lateness(events: list[Event], rank: int) -> dict[str, int]:
    """From a matrix of starts: its largest entries, and the second largest, in each column."""
    starts = _starts(events)
    straggler = _straggler(starts)
    is_its = starts.argmax(axis=0) == straggler
    return {
        "straggler": straggler,
        "waiting_ns": int((starts.max(axis=0) - starts[rank]).sum()),
        "saved_ns": int(_margins(starts)[is_its].sum()),
    }
