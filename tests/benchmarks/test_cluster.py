"""How long do a large virtual cluster and a job of real processes take? Reported, not asserted.

`LARGE_CLUSTER=1` in the environment adds 64 ranks, which take most of a minute.
"""

import os

import pytest
import torch

from course_utils.configs import preset
from course_utils.distributed import Comm, run_ranks
from course_utils.instruments import count_flops
from course_utils.reference import Transformer, token_loss
from course_utils.reference.bucketing import backward_in_buckets
from course_utils.reference.sharding import prefetched_step
from tests.course_utils.distributed.test_cluster_training import FLOPS_PER_SECOND, on


def loss_of(model: Transformer) -> torch.Tensor:
    ids = torch.zeros(1, 4096, dtype=torch.long, device="meta")
    return token_loss(model(ids), ids)


def train(comm: Comm) -> None:
    model = Transformer(preset("Llama-3.2-1B"), device="meta", dtype=torch.bfloat16)
    backward_in_buckets(comm, model, loss_of(model), 25_000_000)


@pytest.mark.parametrize("num_ranks", [8, 64] if os.environ.get("LARGE_CLUSTER") else [8])
def test_a_bucketed_step_of_llama_1b(num_ranks, timed):
    cluster = on(num_ranks)
    with timed(f"VirtualCluster, {num_ranks} ranks, a bucketed step of Llama-3.2-1B on meta"):
        run = cluster.run(train)
    model = Transformer(preset("Llama-3.2-1B"), device="meta", dtype=torch.bfloat16)
    compute = sum(count_flops(lambda: loss_of(model))) / FLOPS_PER_SECOND
    assert [len(run.communications(rank)) for rank in range(num_ranks)] == num_ranks * [49]
    assert run.compute_seconds() == pytest.approx(compute)


def sharded_train(comm: Comm) -> None:
    """A step in stage 3, layers run again in the backward pass; the embedding is the last layer."""
    model = Transformer(preset("Llama-3.2-1B"), device="meta", dtype=torch.bfloat16)
    block, embedding = model.blocks[0], model.embedding.weight
    num_layers = len(model.blocks)
    sizes = [sum(p.numel() for p in block.parameters())] * num_layers + [embedding.numel()]
    parts = [embedding.new_empty(-(-size // comm.size), requires_grad=False) for size in sizes]
    gradients = [torch.empty_like(part) for part in parts]
    uses = [num_layers, *range(num_layers), num_layers, *reversed(range(num_layers))]
    states = [torch.empty(1, 4096, embedding.shape[1], device="meta", dtype=torch.bfloat16)]

    def apply(layer: int, weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if layer == num_layers:
            logits = x @ weight[: embedding.numel()].view_as(embedding).T
            return torch.nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), torch.zeros(4096, dtype=torch.long, device="meta")
            )
        shapes = {name: each.shape for name, each in block.named_parameters()}
        pieces = weight[: sizes[0]].split([shape.numel() for shape in shapes.values()])
        views = (piece.view(s) for piece, s in zip(pieces, shapes.values(), strict=True))
        return torch.func.functional_call(block, dict(zip(shapes, views, strict=True)), (x,))

    def compute(number: int, weight: torch.Tensor) -> torch.Tensor | None:
        layer = uses[number]
        if number == 0:
            return None  # a look-up
        if number <= num_layers:
            with torch.no_grad():
                states.append(apply(layer, weight, states[-1]))
            return None
        x, weight = states.pop().requires_grad_(), weight.requires_grad_()
        result = apply(layer, weight, x)
        _, gradient = torch.autograd.grad(result, (x, weight), torch.empty_like(result))
        return gradient

    prefetched_step(comm, parts, uses, compute, gradients)
    assert not states


@pytest.mark.parametrize("num_ranks", [8, 64] if os.environ.get("LARGE_CLUSTER") else [8])
def test_a_sharded_step_of_llama_1b(num_ranks, timed):
    cluster = on(num_ranks)
    with timed(f"VirtualCluster, {num_ranks} ranks, a sharded step of Llama-3.2-1B on meta"):
        run = cluster.run(sharded_train)
    names = [event.name.split(" #")[0] for event in run.communications(num_ranks - 1)]
    assert {name: names.count(name) for name in set(names)} == {
        "all_gather": 2 * 16 + 2,
        "reduce_scatter": 16 + 1,
    }


def test_two_processes_to_their_first_collective(timed):
    def step(comm: Comm) -> float:
        x = torch.ones(1)
        comm.all_reduce(x)
        return x.item()

    with timed("run_ranks, 2 ranks, one all_reduce"):
        assert run_ranks(step, 2) == [2, 2]
