"""Pipelines: two instruments against each other, against torch's orders, and the known numbers."""

import functools
from fractions import Fraction
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.testing._internal.distributed.fake_pg import FakeStore

from course_utils.configs import Placement, Schedule
from course_utils.configs.pipeline import name_of
from course_utils.distributed import (
    ClusterRun,
    Comm,
    DeadlockError,
    Link,
    Network,
    VirtualCluster,
)
from course_utils.instruments import PassSeconds, PipelineRun, simulate_pipeline
from course_utils.reference.pipeline_schedules import (
    gpipe,
    greedy_halves,
    interleaved,
    one_forward_one_backward,
    zero_bubble,
)
from course_utils.reference.pipeline_stage import run_stage

HIDDEN, ROWS = 8, 4
FLOPS_OF_A_PRODUCT = 2 * ROWS * HIDDEN**2


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


def test_latency_lies_on_the_way_of_1f1b():
    def seconds(schedule: Schedule, num_chunks: int = 1) -> Any:
        times = vars(halves(num_chunks)) | {"message": Fraction(1, 10)}
        placement = Placement(4, num_chunks)
        return simulate_pipeline(schedule, 8, placement, PassSeconds(**times)).seconds

    assert seconds(gpipe(4, 8)) == Fraction("33.6")
    assert seconds(one_forward_one_backward(4, 8)) == Fraction("34.6")
    assert seconds(interleaved(4, 8, 2), 2) == Fraction("29.9")
    assert seconds(zero_bubble(4, 8)) == Fraction("28.2")


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


# The second instrument: real tensors on the virtual cluster, a product each second.


def parts_of_model(num_parts: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Linear(HIDDEN, HIDDEN, bias=False).double() for _ in range(num_parts)]


def inputs(num_micro_batches: int) -> Tensor:
    shape = num_micro_batches, ROWS, HIDDEN
    return torch.linspace(-1, 1, num_micro_batches * ROWS * HIDDEN, dtype=torch.float64).view(shape)


def gradients_of_stage(
    comm: Comm, schedule: Schedule, placement: Placement, num_micro_batches: int
) -> dict[int, Tensor]:
    parts = parts_of_model(placement.num_parts)
    numbers = [placement.part(comm.rank, chunk) for chunk in range(placement.num_chunks)]
    mine = [parts[number] for number in numbers]
    run_stage(
        comm,
        schedule,
        placement,
        modules=mine,
        micro_batches=inputs(num_micro_batches),
        loss=lambda output: output.square().sum(),
    )
    return {number: parts[number].weight.grad for number in numbers}


def run_really(
    schedule: Schedule, placement: Placement, num_micro_batches: int, latency: float = 0.0
) -> ClusterRun:
    link = Link(latency_seconds=latency, bandwidth_bytes_per_second=1e30)
    cluster = VirtualCluster(
        placement.num_stages,
        network=Network(inside=link),
        flops_per_second=FLOPS_OF_A_PRODUCT,
    )
    return cluster.run(gradients_of_stage, schedule, placement, num_micro_batches)


def require_whole_gradients(run: ClusterRun, placement: Placement, num_micro_batches: int) -> None:
    """Require the gradients of the whole model in one piece."""
    parts = parts_of_model(placement.num_parts)
    nn.Sequential(*parts)(inputs(num_micro_batches)).square().sum().backward()
    found = functools.reduce(lambda one, other: one | other, run.results)
    for number, part in enumerate(parts):
        torch.testing.assert_close(found[number], part.weight.grad, rtol=1e-12, atol=1e-12)


CASES = [
    (gpipe(3, 4), Placement(3), 4),
    (one_forward_one_backward(4, 8), Placement(4), 8),
    (one_forward_one_backward(4, 2), Placement(4), 2),
    (interleaved(2, 4, 2), Placement(2, 2), 4),
    (interleaved(1, 2, 2), Placement(1, 2), 2),
    (zero_bubble(3, 7), Placement(3), 7),
    (zero_bubble(4, 8), Placement(4), 8),
]


def require_both_agree(schedule: Schedule, placement: Placement, num_micro_batches: int) -> None:
    simulated = simulate_pipeline(schedule, num_micro_batches, placement).require_complete()
    really = run_really(schedule, placement, num_micro_batches)
    require_whole_gradients(really, placement, num_micro_batches)
    assert really.step_seconds == simulated.seconds
    for stage in simulated.stages:
        assert [
            (each.name, each.start_seconds, each.end_seconds)
            for each in really.of(stage, "compute")
        ] == [
            (name_of(each.action, placement.num_chunks), each.start, each.end)
            for each in simulated.of(stage)
        ]


@pytest.mark.parametrize(("schedule", "placement", "num_micro_batches"), CASES)
def test_simulator_and_real_tensors_agree_action_by_action(schedule, placement, num_micro_batches):
    require_both_agree(schedule, placement, num_micro_batches)


def test_receives_are_posted_ahead():
    run = run_really(gpipe(4, 8), Placement(4), 8, latency=0.1)
    assert run.step_seconds == pytest.approx(33.6, rel=1e-12)  # 35.0 with receives posted late


def test_real_ranks_find_the_same_deadlock():
    with pytest.raises(DeadlockError, match="rank 0 waits in receive #0"):
        run_really(one_forward_one_backward(2, 4)[::-1], Placement(2), 4)


# The third: torch's own orders. Those of Schedule1F1B are printed wrong in torch 2.13.


@pytest.fixture(scope="module")
def fake_ranks():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield
    dist.destroy_process_group()


def order_of(kind: Any, placement: Placement, num_micro_batches: int) -> list[list[Any]]:
    """A schedule of torch as lists of actions; a pair that it overlaps as one after the other."""
    parts = [placement.part(0, chunk) for chunk in range(placement.num_chunks)]
    module, device = nn.Linear(2, 2), torch.device("cpu")
    stages = [PipelineStage(module, part, placement.num_parts, device) for part in parts]
    few = stages if placement.num_chunks > 1 else stages[0]
    made = kind(few, num_micro_batches, loss_fn=lambda output, _: output.sum())
    return [
        [
            (one.computation_type.value, one.microbatch_index, placement.chunk_of(one.stage_index))
            for each in made.pipeline_order[rank]
            if each is not None
            for one in each.sub_actions or (each,)
            if one.microbatch_index is not None
        ]
        for rank in range(placement.num_stages)
    ]


LOOP, V = Placement(4, 2), Placement(4, 2, is_v=True)
TORCH = [
    (schedules.ScheduleGPipe, Placement(4), {4: (9, 4), 8: (9, 8)}),
    (schedules.ScheduleLoopedBFS, LOOP, {4: (4.5, 4), 8: (4.5, 8)}),
    (schedules.ScheduleInterleaved1F1B, LOOP, {4: (4.5, 4), 8: (4.5, 5.5)}),
    (schedules.ScheduleInterleavedZeroBubble, LOOP, {4: (1.5, None), 8: (1.5, None)}),
    (schedules.ScheduleZBVZeroBubble, V, {4: (3.0, 4), 8: (1.5, 4)}),
    (schedules.ScheduleDualPipeV, V, {8: (1.5, 4.5)}),
]


@pytest.mark.usefixtures("fake_ranks")
@pytest.mark.parametrize(("kind", "placement", "expected"), TORCH)
def test_orders_of_torch_take_the_known_seconds(kind, placement, expected):
    for m, (bubble, most) in expected.items():
        order = order_of(kind, placement, m)
        run = simulate_pipeline(order, m, placement, halves(placement.num_chunks))
        assert run.require_complete().seconds - 3 * m == bubble
        assert most is None or max(flights(run)) == most


@pytest.mark.usefixtures("fake_ranks")
@pytest.mark.parametrize(("kind", "placement", "expected"), TORCH)
def test_orders_of_torch_run_with_real_tensors(kind, placement, expected):
    m = min(expected)
    require_both_agree(order_of(kind, placement, m), placement, m)


@pytest.mark.usefixtures("fake_ranks")
def test_two_orders_of_torch_are_those_of_the_course():
    assert order_of(schedules.ScheduleInterleaved1F1B, LOOP, 8) == interleaved(4, 8, 2)
    assert order_of(schedules.ScheduleGPipe, Placement(4), 8) == gpipe(4, 8)


@pytest.mark.parametrize("placement", [Placement(3), LOOP, V, Placement(3, 4, is_v=True)])
def test_a_part_lies_on_one_stage(placement):
    places = [
        (placement.stage_of(part), placement.chunk_of(part)) for part in range(placement.num_parts)
    ]
    assert len(set(places)) == placement.num_parts
    assert [placement.part(*place) for place in places] == list(range(placement.num_parts))
