"""Pipelines with real tensors: what the simulator says, action by action; torch's own orders."""

import functools
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
from course_utils.instruments import PassSeconds, simulate_pipeline
from course_utils.reference.pipeline_schedules import (
    gpipe,
    interleaved,
    one_forward_one_backward,
    zero_bubble,
)
from course_utils.reference.pipeline_stage import run_stage
from tests.course_utils.instruments.test_pipeline import LOOP, V, flights, halves

HIDDEN, ROWS = 8, 4
FLOPS_OF_A_PRODUCT = 2 * ROWS * HIDDEN**2


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


@pytest.mark.parametrize(
    ("schedule", "placement", "seconds", "on_ranks"),
    [
        (gpipe(4, 8), Placement(4), 33.6, 33.6),  # 35.0 with receives posted late
        (one_forward_one_backward(4, 8), Placement(4), 34.6, 34.6),
        # Ranks receive one message after the other, which the simulator does not know.
        (zero_bubble(4, 8), Placement(4), 28.2, 28.3),
        (interleaved(4, 8, 2), Placement(4, 2), 58.4, 58.4),
    ],
)
def test_receives_are_posted_ahead(schedule, placement, seconds, on_ranks):
    times = PassSeconds(message=0.1)
    simulated = simulate_pipeline(schedule, 8, placement, times)
    really = run_really(schedule, placement, 8, latency=0.1)
    assert simulated.seconds == pytest.approx(seconds, rel=1e-12)
    assert really.step_seconds == pytest.approx(on_ranks, rel=1e-12)


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


TORCH = [
    (schedules.ScheduleGPipe, Placement(4), {4: (9, 4), 8: (9, 8), 16: (9, 16)}),
    (schedules.ScheduleLoopedBFS, LOOP, {4: (4.5, 4), 8: (4.5, 8), 16: (4.5, 16)}),
    (schedules.ScheduleInterleaved1F1B, LOOP, {4: (4.5, 4), 8: (4.5, 5.5), 16: (4.5, 5.5)}),
    (schedules.ScheduleInterleavedZeroBubble, LOOP, {m: (1.5, None) for m in (4, 8, 16)}),
    (schedules.ScheduleZBVZeroBubble, V, {4: (3.0, 4), 8: (1.5, 4), 16: (1.5, 4)}),
    (schedules.ScheduleDualPipeV, V, {8: (1.5, 4.5), 16: (1.5, 4.5)}),
]


@pytest.mark.usefixtures("fake_ranks")
@pytest.mark.parametrize(("kind", "placement", "expected"), TORCH)
def test_orders_of_torch_take_the_known_seconds(kind, placement, expected):
    for m, (bubble, most) in expected.items():
        order = order_of(kind, placement, m)
        run = simulate_pipeline(order, m, placement, halves(placement.num_chunks))
        assert run.require_complete().seconds - 3 * m == bubble
        assert most is None or max(flights(run)) == most
        if placement.is_v and m >= 2 * placement.num_stages:
            assert flights(run) == [most] * placement.num_stages


@pytest.mark.usefixtures("fake_ranks")
@pytest.mark.parametrize(("kind", "placement", "expected"), TORCH)
def test_orders_of_torch_run_with_real_tensors(kind, placement, expected):
    m = min(expected)
    require_both_agree(order_of(kind, placement, m), placement, m)


@pytest.mark.usefixtures("fake_ranks")
@pytest.mark.parametrize("m", [4, 8, 16])
def test_two_orders_of_torch_are_those_of_the_course(m):
    assert order_of(schedules.ScheduleInterleaved1F1B, LOOP, m) == interleaved(4, m, 2)
    assert order_of(schedules.ScheduleGPipe, Placement(4), m) == gpipe(4, m)
