"""Four ways to average the gradients of Llama-3.2-1B, in virtual milliseconds derived by hand."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from course_utils.configs import preset
from course_utils.distributed import Comm, Link, Network, VirtualCluster
from course_utils.reference import Transformer, token_loss
from course_utils.reference.bucketing import Backward, backward_in_buckets
from course_utils.reference.gradient_sync import backward_each, backward_flat
from tests.random_models import random_model

LATENCY, BANDWIDTH, FLOPS_PER_SECOND = 10e-6, 200e9, 0.45 * 989e12
LINK = Link(latency_seconds=LATENCY, bandwidth_bytes_per_second=BANDWIDTH)
NUM_PARAMS, NUM_TENSORS, NUM_TOKENS = 1_235_814_400, 146, 4096


def on(num_ranks: int) -> VirtualCluster:
    return VirtualCluster(
        num_ranks, network=Network(inside=LINK), flops_per_second=FLOPS_PER_SECOND
    )


def no_communication(comm: Comm, model: nn.Module, loss: Tensor) -> None:
    loss.backward()


def bucketed(bucket_bytes: float) -> Backward:
    return partial(backward_in_buckets, bucket_bytes=bucket_bytes)


def training_by_weights(comm: Comm, backward: Backward) -> None:
    """One product of the tokens with each weight of the model, so compute is exactly 6 N D.

    In the model's order, so the gradient of the embedding (tied to the head) is ready last.
    """
    weights = Transformer(preset("Llama-3.2-1B"), device="meta").parameters()
    shapes = [(each.shape[0], each.numel() // each.shape[0]) for each in weights]  # a vector: n x 1
    options = {"dtype": torch.bfloat16, "device": "meta", "requires_grad": True}
    model = nn.ParameterList(nn.Parameter(torch.empty(shape, **options)) for shape in shapes)
    inputs = [torch.empty(NUM_TOKENS, rows, **options) for rows, _ in shapes]
    products = [(x @ w).sum() for x, w in zip(inputs, model, strict=True)]
    backward(comm, model, torch.stack(products).sum())


# By hand. Compute: 6 FLOPs for each parameter and token, 68.24 ms. An all-reduce of S bytes among n
# ranks takes 2 (n-1) L + 2 (n-1)/n S/B; gradients in bf16 have 2 N bytes.
#
#    per parameter      146 all-reduces of 2 N bytes together, after the backward pass
#    flat               one of 2 N
#    one bucket         the same, since it is full only when the backward pass ends
#    buckets            of 25 MB: each feed-forward matrix fills one, with what was ready before it:
#                       3 * 16 and the last. Of 100 MB: every third does: 16 and the last. While the
#                       embedding's gradient is computed (4 v h D FLOPs, 9.7 ms) the links become
#                       free; then follows the last bucket: the embedding's v h elements and what
#                       is left of the first layer, its attention matrices (2 h h + 2 h 512) and
#                       two norms (2 h), 2 bytes each.
COMPUTE = 6 * NUM_PARAMS * NUM_TOKENS / FLOPS_PER_SECOND
LAST_BUCKET_BYTES = 2 * (128_256 * 2048 + 2 * 2048 * 2048 + 2 * 2048 * 512 + 2 * 2048)
WAYS = {
    "no communication": (no_communication, 0, 0, (68.24, 68.24)),
    "per parameter": (backward_each, NUM_TENSORS, 2 * NUM_PARAMS, (83.52, 110.31)),
    "flat": (backward_flat, 1, 2 * NUM_PARAMS, (80.62, 90.01)),
    "one bucket": (bucketed(float("inf")), 1, 2 * NUM_PARAMS, (80.62, 90.01)),
    "buckets of 25 MB": (bucketed(25e6), 49, LAST_BUCKET_BYTES, (70.99, 73.16)),
    "buckets of 100 MB": (bucketed(100e6), 17, LAST_BUCKET_BYTES, (70.99, 73.16)),
}


@pytest.mark.parametrize("num_ranks", [2, 8])
@pytest.mark.parametrize("way", WAYS)
def test_step_times_by_hand(way, num_ranks):
    backward, num_calls, exposed_bytes, milliseconds = WAYS[way]
    run = on(num_ranks).run(training_by_weights, backward)
    num_exposed = 1 if way.startswith("buckets") else num_calls
    exposed = 2 * (num_ranks - 1) * num_exposed * LATENCY
    exposed += 2 * (num_ranks - 1) / num_ranks * exposed_bytes / BANDWIDTH
    # sums of some hundred floats
    assert run.step_seconds == pytest.approx(COMPUTE + exposed, rel=1e-12)
    assert round(1e3 * run.step_seconds, 2) == milliseconds[num_ranks == 8]
    for rank in range(num_ranks):
        calls = run.communications(rank)
        assert len(calls) == num_calls
        assert sum(each.num_bytes for each in calls) == 2 * NUM_PARAMS * (num_calls > 0)
        assert run.compute_seconds(rank) == pytest.approx(COMPUTE, rel=1e-12)
        assert run.exposed_seconds(rank) == pytest.approx(exposed, abs=1e-13)
        assert run.idle_seconds(rank) == pytest.approx(0, abs=1e-13)


def small_training(comm: Comm, backward: Backward) -> list[Tensor]:
    """Gradients of a real model, with the same weights but another batch on each rank."""
    torch.manual_seed(1)
    model = Transformer(random_model("tied", 1)).double()
    ids = torch.randint(4, (comm.size, 2, 8))[comm.rank]
    backward(comm, model, token_loss(model(ids), ids))
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize(
    "backward", [backward_each, backward_flat, bucketed(300), bucketed(float("inf"))]
)
def test_gradients_are_summed(backward):
    alone = VirtualCluster(3).run(small_training, no_communication).results
    for gradients in VirtualCluster(3).run(small_training, backward).results:
        for index, gradient in enumerate(gradients):
            torch.testing.assert_close(gradient, sum(each[index] for each in alone))


def test_an_unused_weight_deadlocks_the_ranks_that_wait_for_its_gradient():
    """Its hook never fires on the rank that skips it, so the others wait for ever."""

    def step(comm: Comm) -> None:
        used, skipped = nn.Linear(2, 2), nn.Linear(2, 2)
        for parameter in (*used.parameters(), *skipped.parameters()):
            parameter.register_post_accumulate_grad_hook(lambda p: comm.all_reduce(p.grad))
        y = used(torch.ones(1, 2))
        (y if comm.rank == 0 else skipped(y)).sum().backward()

    with pytest.raises(RuntimeError, match=r"deadlock: rank 0 has returned; rank 1 waits in all_"):
        VirtualCluster(2).run(step)
