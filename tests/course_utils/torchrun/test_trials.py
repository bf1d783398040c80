"""Trainers on ranks give what one rank gives, and each that forgets something does not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from course_utils.distributed import Comm, VirtualCluster
from course_utils.reference.bucketing import backward_in_buckets
from course_utils.reference.pipeline_schedules import one_forward_one_backward
from course_utils.reference.sharding import ShardedLinear, sharded_step
from course_utils.reference.tensor_parallel import f_and_g, parallel_mlp
from course_utils.torchrun.running import Outcome, allowed_difference, differences_from
from course_utils.torchrun.trials import TRIALS, Sizes, Trial

SIZES = Sizes(rows=24, width=12, steps=2)  # divisible by all numbers of ranks below
ALL = [(trial, n) for trials in TRIALS.values() for trial in trials for n in (1, 2, 3, 4)]


def largest_difference(
    trial: Trial, num_ranks: int, sizes: Sizes = SIZES, **functions: Any
) -> float:
    def rank(comm: Comm) -> float:
        got = trial.on_ranks(comm, {**trial.functions, **functions}, sizes)
        return max(differences_from(got, trial.alone(comm.rank, comm.size, sizes)).values())

    return max(VirtualCluster(num_ranks).run(rank).results)


@pytest.mark.parametrize(("trial", "num_ranks"), ALL, ids=lambda each: getattr(each, "what", each))
def test_ranks_have_what_one_rank_has(trial, num_ranks):
    assert largest_difference(trial, num_ranks) <= allowed_difference(trial, SIZES, num_ranks)


@pytest.mark.parametrize("trial", [each for trials in TRIALS.values() for each in trials])
def test_in_float32_the_allowed_difference_holds_too(trial):
    sizes = Sizes(rows=24, width=12, steps=2, dtype=torch.float32)
    assert 0 < largest_difference(trial, 2, sizes) <= allowed_difference(trial, sizes, 2)


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


MISTAKES: list[tuple[str, int, Callable[..., Any] | type, str]] = [
    ("09", 0, not_summed, "backward_in_buckets"),
    ("09", 0, averaged, "backward_in_buckets"),
    ("10", 0, own_part_only, "sharded_step"),
    ("10", 1, Averaged, "ShardedLinear"),
    ("11", 0, no_f, "f_and_g"),
    ("11", 0, bias_on_each, "parallel_mlp"),
    ("11", 1, own_keys_only, "ring_attention"),
    ("12", 0, one_short, "one_forward_one_backward"),
]


@pytest.mark.parametrize(("unit", "number", "mistake", "name"), MISTAKES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_what_forgets_something_differs_by_far(unit, number, mistake, name, dtype):
    trial, sizes = TRIALS[unit][number], Sizes(rows=24, width=12, steps=2, dtype=dtype)
    found = largest_difference(trial, 2, sizes, **{name: mistake})
    assert found > 10 * allowed_difference(trial, sizes, 2)


def test_missing_tensors_other_shapes_and_nan_are_no_equals():
    wanted = {"w": torch.tensor([1.0, -4.0])}
    found = [
        differences_from(got, wanted)["w"]
        for got in ({}, {"w": torch.ones(3)}, {"w": torch.tensor([1.0, torch.nan])})
    ]
    assert found[:2] == [float("inf")] * 2
    assert differences_from({"w": torch.tensor([2.0, -4.0])}, wanted) == {"w": 0.25}
    for each in found:
        assert not Outcome({}, 1.0, [], [], [], largest=[0.0, each]).is_equal
    assert Outcome({}, 1.0, [], [], [], largest=[0.0, 1.0]).is_equal


def test_sizes_that_cannot_be_cut_are_refused():
    for trials in TRIALS.values():
        for trial in trials:
            trial.require_divisible(Sizes(), 64)
    with pytest.raises(
        ValueError, match=r"`rows` is cut into 3 equal parts on 3 ranks, and 64 came"
    ):
        TRIALS["09"][0].require_divisible(Sizes(), 3)
    with pytest.raises(ValueError, match=r"`width` is cut into 5 .*: give `--width 65`"):
        TRIALS["10"][1].require_divisible(Sizes(rows=65), 5)
    with pytest.raises(
        ValueError, match=r"`rows` is cut into 8 equal parts on 2 ranks, and 12 came"
    ):
        TRIALS["12"][0].require_divisible(Sizes(rows=12), 2)
    with pytest.raises(ValueError, match="give `--rows 128`"):
        TRIALS["11"][1].require_divisible(Sizes(), 128)
