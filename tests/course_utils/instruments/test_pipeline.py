"""The simulator of pipelines: the known numbers, wrong orders, deadlocks, odd lists."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from course_utils.configs import Action, Placement, Schedule
from course_utils.instruments import PassSeconds, PipelineRun, simulate_pipeline
from course_utils.reference.pipeline_schedules import (
    gpipe,
    greedy_halves,
    interleaved,
    one_forward_one_backward,
    zero_bubble,
)


def halves(num_chunks: int) -> PassSeconds:
    """F, I and W of a whole stage take a second each."""
    share = Fraction(1, num_chunks)
    return PassSeconds(forward=share, input_gradient=share, weight_gradient=share)


def simulate(schedule: Schedule, num_micro_batches: int, num_chunks: int = 1) -> PipelineRun:
    placement = Placement(len(schedule), num_chunks)
    run = simulate_pipeline(schedule, num_micro_batches, placement, halves(num_chunks))
    return run.require_complete()


def flights(run: PipelineRun) -> list[float]:
    return [run.in_flight(stage) for stage in run.stages]


# By hand or by other people's papers: p, m, seconds of GPipe and of 1F1B, of two and of four chunks
# (where p divides m), of ZB-H1.
GOLDEN = [
    (2, 2, 9, 7.5, 6.75, 7),
    (4, 4, 21, 16.5, 14.25, 15),
    (4, 8, 33, 28.5, 26.25, 27),
    (4, 16, 57, 52.5, 50.25, 51),
    (8, 32, 117, 106.5, 101.25, 103),
    (3, 7, 27, None, None, 23),
]


@pytest.mark.parametrize("golden", GOLDEN)
def test_seconds_and_flights_are_the_known_ones(golden):
    p, m, plain, two, four, zero = golden
    run = simulate(gpipe(p, m), m)
    assert (run.seconds, flights(run)) == (plain, [m] * p)
    run = simulate(one_forward_one_backward(p, m), m)
    assert (run.seconds, flights(run)) == (plain, [p - s for s in range(p)])
    run = simulate(zero_bubble(p, m), m)
    assert (run.seconds, flights(run)) == (zero, [p] * p)
    for num_chunks, seconds in ((2, two), (4, four)):
        if seconds is not None:
            assert simulate(interleaved(p, m, num_chunks), m, num_chunks).seconds == seconds


@pytest.mark.parametrize(
    ("p", "m", "expected"),
    [
        (2, 2, [2, 1.5]),
        (4, 4, [4, 4, 3.5, 2.5]),
        (4, 8, [5.5, 4.5, 3.5, 2.5]),
        (4, 16, [5.5, 4.5, 3.5, 2.5]),
        (8, 32, [11.5, 10.5, 9.5, 8.5, 7.5, 6.5, 5.5, 4.5]),
    ],
)
def test_two_chunks_hold_more(p, m, expected):
    assert flights(simulate(interleaved(p, m, 2), m, 2)) == expected


# What zero bubble does not say: with 2p - 1 in flight a step ends no earlier, each stage is done
# earlier by its own clock.
@pytest.mark.parametrize(("p", "m", "seconds"), [(4, 8, 27), (8, 24, 79)])
def test_more_in_flight_helps_only_steps_that_overlap(p, m, seconds):
    runs = [simulate(each, m) for each in (zero_bubble(p, m), greedy_halves(p, m, 2 * p - 1))]
    own = [
        max(run.of(stage)[-1].end - run.of(stage)[0].start for stage in run.stages) for run in runs
    ]
    assert [run.seconds for run in runs] == [seconds, seconds]
    assert own == [seconds, 3 * m]
    assert [max(flights(run)) for run in runs] == [p, 2 * p - 1]


def test_a_second_pass_ahead_hides_messages():
    """With messages of a tenth 29.9 s as Megatron begins, 31.5 with one pass for each stage."""
    p, m, v = 4, 8, 2
    of_last = interleaved(p, m, v)[-1]
    forward = [each for each in of_last if each[0] == "F"]
    backward = [each for each in of_last if each[0] == "B"]
    schedule = []
    for stage in range(p):
        ahead = (p - 1 - stage) + (v - 1) * p
        pairs = zip(forward[ahead:], backward, strict=False)
        both = [each for pair in pairs for each in pair]
        schedule.append([*forward[:ahead], *both, *backward[len(forward) - ahead :]])
    times = vars(halves(v)) | {"message": Fraction(1, 10)}
    run = simulate_pipeline(schedule, m, Placement(p, v), PassSeconds(**times))
    assert (run.seconds, flights(run)) == (Fraction("31.5"), [4, 3.5, 3, 2.5])
    assert simulate(schedule, m, v).seconds == 28.5


def test_parts_may_take_different_times():
    times = PassSeconds(forward=[1, 4], input_gradient=[1, 4], weight_gradient=[1, 4])
    run = simulate_pipeline(gpipe(2, 3), 3, seconds=times)
    assert run.seconds == 1 + 3 * 12 + 2
    assert [run.busy_seconds(0), run.idle_seconds(0), run.idle_seconds(1)] == [9, 30, 3]
    assert run.idle_share == pytest.approx(33 / 78)


def test_a_deadlock_names_the_actions_that_wait():
    complaint = simulate_pipeline(one_forward_one_backward(4, 8)[::-1], 8).complaint
    assert "deadlock: stage 0 waits in B0 for B0 of stage 1, stage 1 waits in F1" in complaint
    run = simulate_pipeline([[("B", 0, 0), ("F", 0, 0)]], 1)
    assert run.complaint == (
        "deadlock: stage 0 waits in B0 for F0, which comes later in its own list"
    )
    with pytest.raises(ValueError, match="cannot be followed: deadlock"):
        run.require_complete()


def test_chunks_in_turn_without_groups_wait_for_each_other():
    p, m, v = 4, 8, 2
    schedule = []
    for actions in interleaved(p, m, v):
        orders = {
            "F": iter([("F", k, chunk) for chunk in range(v) for k in range(m)]),
            "B": iter([("B", k, chunk) for chunk in reversed(range(v)) for k in range(m)]),
        }
        schedule.append([next(orders[kind]) for kind, _, _ in actions])
    run = simulate_pipeline(schedule, m, Placement(p, v))
    assert [each.action for each in run.waiting] == [("B", 0, 1)] * p
    assert run.complaint.startswith("deadlock: stage 0 waits in B0.1 for B0.1 of stage 1")


def test_what_is_missing_twice_or_unknown_is_named():
    schedule = one_forward_one_backward(2, 2)
    without = [[each for each in some if each != ("B", 1, 0)] for some in schedule]
    assert simulate_pipeline(without, 2).complaint == "missing: B1 on stage 0, B1 on stage 1"
    odd = [[*schedule[0], ("B", 1, 0), ("I", 0, 0), ("F", 2, 0), "x"], schedule[1]]
    assert simulate_pipeline(odd, 2).complaint.startswith(
        "no action of this pipeline: ('F', 2, 0) on stage 0, 'x' on stage 0; "
        "twice: B1 on stage 0, I0 on stage 0"
    )
    half = [[("F", 0, 0), ("I", 0, 0)]]
    assert simulate_pipeline(half, 1).complaint == "missing: W0 on stage 0"
    with pytest.raises(ValueError, match="a list of actions for each of 3 stages, got 2"):
        simulate_pipeline(schedule, 2, Placement(3))


def alternating(p: int, m: int, ahead: Callable[[int], int]) -> list[list[Action]]:
    """F and B in turn, with so many F ahead on each stage."""
    schedule = []
    for stage in range(p):
        n = min(ahead(stage), m)
        pairs: list[Action] = [
            each for k in range(m - n) for each in (("F", n + k, 0), ("B", k, 0))
        ]
        first: list[Action] = [("F", k, 0) for k in range(n)]
        schedule.append([*first, *pairs, *(("B", k, 0) for k in range(m - n, m))])
    return schedule


def in_halves(schedule: Schedule, is_late: bool) -> list[list[Action]]:
    """Each B as I and W, W at once or all at the end."""
    lists = []
    for actions in schedule:
        parts = [
            [(kind, k, c)] if kind == "F" else [("I", k, c), ("W", k, c)] for kind, k, c in actions
        ]
        flat = [each for some in parts for each in some]
        lists.append(sorted(flat, key=lambda each: is_late and each[0] == "W"))
    return lists


def test_wrong_orders_cost_what_is_known_of_them():
    p, m = 4, 8

    def facts(schedule: Schedule, m: int = m) -> tuple[Any, list[float]]:
        run = simulate(schedule, m)
        return run.seconds, flights(run)

    assert facts(alternating(p, m, lambda s: p - 1 - s)) == (33, [4, 3, 2, 1])
    assert facts(alternating(p, m, lambda s: p - s)) == (33, [5, 4, 3, 2])
    assert facts(alternating(p, m, lambda s: p - 1)) == (69, [4, 4, 4, 4])
    assert facts(alternating(p, 2, lambda s: p - 1 - s), 2) == (15, [2, 2, 2, 1])
    right = one_forward_one_backward(p, m)
    assert facts(in_halves(right, is_late=False)) == (30, [4, 3, 2, 1])
    assert facts(in_halves(right, is_late=True)) == (30, [8, 8, 8, 8])


LOOP, V = Placement(4, 2), Placement(4, 2, is_v=True)


@pytest.mark.parametrize("placement", [Placement(3), LOOP, V, Placement(3, 4, is_v=True)])
def test_a_part_lies_on_one_stage(placement):
    places = [
        (placement.stage_of(part), placement.chunk_of(part)) for part in range(placement.num_parts)
    ]
    assert len(set(places)) == placement.num_parts
    assert [placement.part(*place) for place in places] == list(range(placement.num_parts))
