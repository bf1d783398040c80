"""How long do a large virtual cluster and a job of real processes take? Reported, not asserted.

`LARGE_CLUSTER=1` in the environment adds 64 ranks, which take most of a minute.
"""

import os

import pytest
import torch

from course_utils.configs import preset
from course_utils.distributed import Comm, Link, Network, VirtualCluster, run_ranks
from course_utils.instruments import count_flops
from course_utils.reference import Transformer, token_loss
from tests.course_utils.distributed.data_parallel import bucketed

FLOPS_PER_SECOND = 0.45 * 989e12
LINK = Link(latency_seconds=10e-6, bandwidth_bytes_per_second=200e9)


def loss_of(model: Transformer) -> torch.Tensor:
    ids = torch.zeros(1, 4096, dtype=torch.long, device="meta")
    return token_loss(model(ids), ids)


def train(comm: Comm) -> None:
    model = Transformer(preset("Llama-3.2-1B"), device="meta", dtype=torch.bfloat16)
    bucketed(25e6)(comm, list(model.parameters()), lambda: loss_of(model))


@pytest.mark.parametrize("num_ranks", [8, 64] if os.environ.get("LARGE_CLUSTER") else [8])
def test_a_bucketed_step_of_llama_1b(num_ranks, timed):
    cluster = VirtualCluster(
        num_ranks, network=Network(inside=LINK), flops_per_second=FLOPS_PER_SECOND
    )
    with timed(f"VirtualCluster, {num_ranks} ranks, a bucketed step of Llama-3.2-1B on meta"):
        run = cluster.run(train)
    model = Transformer(preset("Llama-3.2-1B"), device="meta", dtype=torch.bfloat16)
    compute = sum(count_flops(lambda: loss_of(model))) / FLOPS_PER_SECOND
    assert [len(run.communications(rank)) for rank in range(num_ranks)] == num_ranks * [49]
    assert run.compute_seconds() == pytest.approx(compute)


def test_two_processes_to_their_first_collective(timed):
    def step(comm: Comm) -> float:
        x = torch.ones(1)
        comm.all_reduce(x)
        return x.item()

    with timed("run_ranks, 2 ranks, one all_reduce"):
        assert run_ranks(step, 2) == [2, 2]
