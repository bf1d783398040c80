"""PyTorch's pipelines in real processes: their orders and gradients, beside ours."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe

from course_utils.configs.pipeline import Action
from course_utils.distributed import Comm, run_ranks
from course_utils.instruments.torch_pipeline import recorded_step
from course_utils.reference.pipeline_schedules import gpipe, one_forward_one_backward

ORDERS: dict[type[Any], Any] = {ScheduleGPipe: gpipe, Schedule1F1B: one_forward_one_backward}
Done = tuple[list[Action], Tensor]


def parts(num_stages: int) -> list[nn.Linear]:
    torch.manual_seed(0)
    return [nn.Linear(3, 3, bias=False).double() for _ in range(num_stages)]


def loss(output: Tensor) -> Tensor:
    return output.square().sum()


def steps(comm: Comm, micro_batches: Tensor) -> dict[str, Done]:
    """A step of each kind, every one on fresh parts."""
    done = {}
    for kind in ORDERS:
        part = parts(comm.size)[comm.rank]
        actions = recorded_step(kind, part, list(micro_batches), loss)
        assert part.weight.grad is not None
        done[kind.__name__] = actions, part.weight.grad
    return done


@pytest.fixture(scope="module", params=[(2, 5), (3, 3)])
def run(request: pytest.FixtureRequest) -> tuple[Tensor, list[dict[str, Done]]]:
    num_stages, num_micro_batches = request.param
    micro_batches = torch.linspace(-1, 1, num_micro_batches * 6).double().view(-1, 2, 3)
    return micro_batches, run_ranks(steps, num_stages, micro_batches)


@pytest.mark.parametrize("kind", ORDERS)
def test_each_process_works_in_the_order_of_our_lists(
    run: tuple[Tensor, list[dict[str, Done]]], kind: type[Any]
) -> None:
    micro_batches, processes = run
    wanted = ORDERS[kind](len(processes), len(micro_batches))
    assert [process[kind.__name__][0] for process in processes] == wanted


@pytest.mark.parametrize("kind", ORDERS)
def test_gradients_are_those_of_the_model_in_one_piece(
    run: tuple[Tensor, list[dict[str, Done]]], kind: type[Any]
) -> None:
    micro_batches, processes = run
    whole = parts(len(processes))
    loss(nn.Sequential(*whole)(micro_batches)).backward()
    for process, part in zip(processes, whole, strict=True):
        torch.testing.assert_close(process[kind.__name__][1], part.weight.grad)
