"""Ranks have what one rank has, and a function that forgets something does not."""

from typing import Any

import pytest
import torch
from torch import Tensor

from course_utils.distributed import Comm, VirtualCluster
from course_utils.reference.bucketing import backward_in_buckets
from course_utils.reference.pipeline_schedules import one_forward_one_backward
from course_utils.reference.sharding import ShardedLinear, sharded_step
from course_utils.reference.tensor_parallel import f_and_g, parallel_mlp
from course_utils.torchrun import trials
from course_utils.torchrun.__main__ import allowed_difference, difference, require_divisible
from course_utils.torchrun.trials import COURSE_FUNCTIONS, TRIALS, Sizes

SIZES = Sizes(rows=24, width=24)  # divisible by all numbers of ranks below
ALL = [trial for unit in TRIALS.values() for trial in unit]


def largest_difference(trial: Any, num_ranks: int, sizes: Sizes = SIZES, **own: Any) -> float:
    def rank(comm: Comm) -> float:
        return difference(trial(comm, {**COURSE_FUNCTIONS, **own}, sizes))

    return max(VirtualCluster(num_ranks).run(rank).results)


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
@pytest.mark.parametrize("trial", ALL)
def test_ranks_have_what_one_rank_has(trial, num_ranks):
    assert largest_difference(trial, num_ranks) <= allowed_difference(SIZES, num_ranks)


@pytest.mark.parametrize("trial", ALL)
def test_in_float32_the_allowed_difference_holds_too(trial):
    sizes = Sizes(rows=24, width=24, dtype=torch.float32)
    assert 0 < largest_difference(trial, 2, sizes) <= allowed_difference(sizes, 2)


def not_summed(comm: Comm, model: Any, loss: Tensor, bucket_bytes: int) -> None:
    loss.backward()


def averaged(comm: Comm, model: Any, loss: Tensor, bucket_bytes: int) -> None:
    backward_in_buckets(comm, model, loss / comm.size, bucket_bytes)


def own_part_only(comm: Comm, weights: Tensor, gradient: Tensor, part: Any, optimizer: Any) -> None:
    sharded_step(comm, weights.clone(), gradient, part, optimizer)


class Averaged(ShardedLinear):
    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        nothing, of_x, of_part, no_shape = ShardedLinear.backward(ctx, *upstream)
        return nothing, of_x, of_part / ctx.comm.size, no_shape


def no_f(comm: Comm) -> tuple[Any, Any]:
    return (lambda x: x), f_and_g(comm)[1]


def bias_on_each(comm: Comm, f: Any, g: Any, x: Tensor, w: Any) -> Tensor:
    zero = torch.zeros_like(w["bias"])
    return parallel_mlp(comm, f, g, x, {**w, "bias": zero}) + comm.size * w["bias"]


def own_keys_only(comm: Comm, attend_block: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out: Tensor = attend_block(q, k, v, comm.rank)[0]
    return out


def one_short(num_stages: int, num_micro_batches: int) -> Any:
    return one_forward_one_backward(num_stages, num_micro_batches - 1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("trial", "name", "mistake"),
    [
        (trials.data_parallel, "backward_in_buckets", not_summed),
        (trials.data_parallel, "backward_in_buckets", averaged),
        (trials.optimizer_sharded, "sharded_step", own_part_only),
        (trials.weights_sharded, "ShardedLinear", Averaged),
        (trials.tensor_parallel, "f_and_g", no_f),
        (trials.tensor_parallel, "parallel_mlp", bias_on_each),
        (trials.context_parallel, "ring_attention", own_keys_only),
        (trials.pipeline, "one_forward_one_backward", one_short),
    ],
)
def test_what_forgets_something_differs_by_far(trial, name, mistake, dtype):
    sizes = Sizes(rows=24, width=24, dtype=dtype)
    assert largest_difference(trial, 2, sizes, **{name: mistake}) > 10 * allowed_difference(
        sizes, 2
    )


def test_other_shapes_and_nan_are_no_equals():
    wanted = torch.tensor([1.0, -4.0])
    assert difference([(torch.tensor([2.0, -4.0]), wanted), (wanted, wanted)]) == 0.25
    for got in (torch.ones(3), torch.tensor([1.0, torch.nan])):
        assert difference([(got, wanted), (wanted, wanted)]) == float("inf")


def test_sizes_that_cannot_be_shared_are_refused():
    require_divisible(Sizes(), 64)
    with pytest.raises(ValueError, match=r"`--rows` must be a multiple of 24, .* give `--rows 72`"):
        require_divisible(Sizes(), 3)
    with pytest.raises(ValueError, match=r"`--width` must be .* 0 came: give `--width 8`"):
        require_divisible(Sizes(width=0), 2)
