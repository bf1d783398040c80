"""What runs on real ranks: of each unit its trainers, and the same on one rank, in plain PyTorch.

    >>> trial = TRIALS["09"][0]
    >>> on_ranks = trial.on_ranks(comm, trial.functions, Sizes())
    >>> alone = trial.alone(comm.rank, comm.size, Sizes())  # the same tensors, by name

A trainer takes some steps of SGD with momentum. Its update is linear in the gradients, so that a
rounding error stays as small as it is; Adam divides by them and would enlarge it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from course_utils.configs.pipeline import Placement
from course_utils.distributed.comm import Comm
from course_utils.reference.bucketing import backward_in_buckets
from course_utils.reference.context_parallel import attend_pieces, ring_attention
from course_utils.reference.pipeline_schedules import one_forward_one_backward
from course_utils.reference.pipeline_stage import run_stage
from course_utils.reference.sharding import ShardedLinear, sharded_step
from course_utils.reference.tensor_parallel import f_and_g, parallel_mlp

NUM_LAYERS = 4
NUM_MICRO_BATCHES = 8
CPU = torch.device("cpu")

Functions = Mapping[str, Any]
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Sizes:
    """How much is computed, and where.

    Attributes:
        rows: Rows of the whole batch, or tokens of the sequence.
        width: Numbers in a row.
        steps: Optimizer steps.
        dtype: Of all numbers.
        device: Where this rank's tensors are.
    """

    rows: int = 64
    width: int = 64
    steps: int = 3
    dtype: torch.dtype = torch.float64
    device: torch.device = CPU

    def batch(self) -> Tensor:
        """The whole batch (rows, width), the same on every rank."""
        return self.numbers(self.rows, self.width, seed=1)

    def numbers(self, *shape: int, seed: int) -> Tensor:
        """Random numbers that are the same on every rank: drawn on the CPU in float64."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64, device=CPU)
        return drawn.to(self.device, self.dtype)

    def layers(self, count: int = NUM_LAYERS, bias: bool = True) -> list[nn.Sequential]:
        """Layers of one width, the same on every rank."""
        torch.manual_seed(0)
        made = (nn.Linear(self.width, self.width, bias, CPU, self.dtype) for _ in range(count))
        return [nn.Sequential(each, nn.Tanh()).to(self.device) for each in made]

    def share_of_loss(self, output: Tensor) -> Tensor:
        """The part that some rows have in the mean square over the whole batch."""
        return output.square().sum() / (self.rows * self.width)


@dataclass(frozen=True)
class Trial:
    """One trainer on ranks, and the same on one.

    Attributes:
        what: In words.
        functions: The course's functions that it runs, by name; a student's can take their place.
        on_ranks: What this rank has in the end, by name.
        alone: The same tensors, computed by this process alone.
        divided: The sizes, names in `Sizes`, that are cut into equal parts.
        num_parts: How many equal parts, from the number of ranks.
        num_layers: Products one after the other in one pass, from the number of ranks.
        has_messages: Whether ranks send messages to their neighbours.
    """

    what: str
    functions: Functions
    on_ranks: Callable[[Comm, Functions, Sizes], Tensors]
    alone: Callable[[int, int, Sizes], Tensors]
    divided: Sequence[str]
    num_parts: Callable[[int], int] = lambda num_ranks: num_ranks
    num_layers: Callable[[int], int] = lambda num_ranks: NUM_LAYERS
    has_messages: bool = False

    def require_divisible(self, sizes: Sizes, num_ranks: int) -> None:
        """Refuse sizes that cannot be cut into equal parts.

        Raises:
            ValueError: If one cannot.
        """
        num_parts = self.num_parts(num_ranks)
        for name in self.divided:
            size = getattr(sizes, name)
            if size % num_parts:
                nearest = num_parts * max(1, round(size / num_parts))
                raise ValueError(
                    f"{self.what}: `{name}` is cut into {num_parts} equal parts on {num_ranks} "
                    f"ranks, and {size} came, which {num_parts} does not divide: give "
                    f"`--{name} {nearest}`, or start another number of ranks."
                )


def _part(tensor: Tensor, rank: int, num_ranks: int, dim: int = 0) -> Tensor:
    return tensor.detach().tensor_split(num_ranks, dim)[rank]


def _optimizer(parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def _train(sizes: Sizes, parameters: Sequence[Tensor], backward: Callable[[], None]) -> None:
    """Some steps; `backward` adds the gradients of the whole batch's loss."""
    optimizer = _optimizer(parameters)
    for _ in range(sizes.steps):
        optimizer.zero_grad()
        backward()
        optimizer.step()


def _trained_alone(sizes: Sizes, layers: Sequence[nn.Module]) -> nn.Sequential:
    model = nn.Sequential(*layers)

    def backward() -> None:
        sizes.share_of_loss(model(sizes.batch())).backward()

    _train(sizes, list(model.parameters()), backward)
    return model


# Unit 09: each rank has some of the rows, and all weights.


def _bucketed(comm: Comm, functions: Functions, sizes: Sizes) -> Tensors:
    model = nn.Sequential(*sizes.layers())
    rows = _part(sizes.batch(), comm.rank, comm.size)
    bucket_bytes = sizes.width**2 * sizes.dtype.itemsize  # a weight

    def backward() -> None:
        loss = sizes.share_of_loss(model(rows))
        functions["backward_in_buckets"](comm, model, loss, bucket_bytes)

    _train(sizes, list(model.parameters()), backward)
    return {name: each.detach() for name, each in model.named_parameters()}


def _bucketed_alone(rank: int, num_ranks: int, sizes: Sizes) -> Tensors:
    model = _trained_alone(sizes, sizes.layers())
    return {name: each.detach() for name, each in model.named_parameters()}


# Unit 10: each rank has some of the rows, and a part of the optimizer's state or of every weight.


def _owned(comm: Comm, functions: Functions, sizes: Sizes) -> Tensors:
    model = nn.Sequential(*sizes.layers())
    rows, trained = _part(sizes.batch(), comm.rank, comm.size), list(model.parameters())
    flat = parameters_to_vector(trained).detach()
    weights = F.pad(flat, (0, -len(flat) % comm.size))
    vector_to_parameters(weights[: len(flat)], trained)  # each is a view of `weights` now
    part = nn.Parameter(weights.chunk(comm.size)[comm.rank].clone())
    optimizer = _optimizer([part])
    for _ in range(sizes.steps):
        model.zero_grad()
        sizes.share_of_loss(model(rows)).backward()
        gradients = [each.grad for each in trained if each.grad is not None]
        gradient = F.pad(parameters_to_vector(gradients), (0, len(weights) - len(flat)))
        functions["sharded_step"](comm, weights, gradient, part, optimizer)
    return {"weights": weights[: len(flat)]}


def _owned_alone(rank: int, num_ranks: int, sizes: Sizes) -> Tensors:
    model = _trained_alone(sizes, sizes.layers())
    return {"weights": parameters_to_vector(model.parameters()).detach()}


def _sharded(comm: Comm, functions: Functions, sizes: Sizes) -> Tensors:
    sharded, shape = functions["ShardedLinear"], (sizes.width, sizes.width)
    rows = _part(sizes.batch(), comm.rank, comm.size)
    wholes = [each for layer in sizes.layers(bias=False) for each in layer.parameters()]
    parts = [_part(each.flatten(), comm.rank, comm.size).clone() for each in wholes]
    for each in parts:
        each.requires_grad_()

    def backward() -> None:
        y = rows
        for part in parts:
            y = torch.tanh(sharded.apply(comm, y, part, shape))
        sizes.share_of_loss(y).backward()

    _train(sizes, parts, backward)
    return {f"part of weight {number}": each.detach() for number, each in enumerate(parts)}


def _sharded_alone(rank: int, num_ranks: int, sizes: Sizes) -> Tensors:
    model = _trained_alone(sizes, sizes.layers(bias=False))
    parts = (_part(each.flatten(), rank, num_ranks) for each in model.parameters())
    return {f"part of weight {number}": each for number, each in enumerate(parts)}


# Unit 11: each rank has some of the hidden units, or some of the tokens.


def _mlp_weights(sizes: Sizes) -> Tensors:
    hidden, width = 2 * sizes.width, sizes.width
    shapes = {"gate": (hidden, width), "up": (hidden, width), "down": (width, hidden)}
    weights = {
        name: sizes.numbers(*shape, seed=2 + number).div_(shape[1] ** 0.5)
        for number, (name, shape) in enumerate(shapes.items())
    } | {"bias": sizes.numbers(width, seed=5)}
    return {name: each.requires_grad_() for name, each in weights.items()}


def _cut_of_mlp(weights: Tensors, rank: int, num_ranks: int) -> Tensors:
    """A rank's part of each weight; the bias is whole on every rank."""
    parts = {name: _part(weights[name], rank, num_ranks) for name in ("gate", "up")}
    down = _part(weights["down"], rank, num_ranks, dim=1)
    return parts | {"down": down, "bias": weights["bias"].detach()}


def _tensor_parallel(comm: Comm, functions: Functions, sizes: Sizes) -> Tensors:
    f, g = functions["f_and_g"](comm)
    x, weights = sizes.batch().requires_grad_(), _mlp_weights(sizes)

    def backward() -> None:
        z = functions["parallel_mlp"](comm, f, g, x, weights)
        sizes.share_of_loss(z).backward()

    _train(sizes, list(weights.values()), backward)
    assert x.grad is not None
    return _cut_of_mlp(weights, comm.rank, comm.size) | {"gradient of x": x.grad}


def _tensor_parallel_alone(rank: int, num_ranks: int, sizes: Sizes) -> Tensors:
    x, w = sizes.batch().requires_grad_(), _mlp_weights(sizes)

    def backward() -> None:
        z = (F.silu(x @ w["gate"].T) * (x @ w["up"].T)) @ w["down"].T + w["bias"]
        sizes.share_of_loss(z).backward()

    _train(sizes, list(w.values()), backward)
    assert x.grad is not None
    return _cut_of_mlp(w, rank, num_ranks) | {"gradient of x": x.grad}


def _queries_keys_values(sizes: Sizes) -> list[Tensor]:
    return [sizes.numbers(sizes.rows, sizes.width, seed=6 + number) for number in range(3)]


def _ring(comm: Comm, functions: Functions, sizes: Sizes) -> Tensors:
    positions = torch.arange(sizes.rows, device=sizes.device).view(comm.size, 1, -1)

    def attend_block(q: Tensor, k: Tensor, v: Tensor, owner: int) -> tuple[Tensor, Tensor]:
        return attend_pieces(q, k, v, positions[comm.rank], positions[owner])

    q, k, v = (_part(each, comm.rank, comm.size) for each in _queries_keys_values(sizes))
    return {"out": functions["ring_attention"](comm, attend_block, q, k, v)}


def _ring_alone(rank: int, num_ranks: int, sizes: Sizes) -> Tensors:
    q, k, v = (each[None, None] for each in _queries_keys_values(sizes))
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)[0, 0]
    return {"out": _part(whole, rank, num_ranks)}


# Unit 12: each rank has one layer.


def _pipeline(comm: Comm, functions: Functions, sizes: Sizes) -> Tensors:
    part = sizes.layers(comm.size)[comm.rank]
    schedule = functions["one_forward_one_backward"](comm.size, NUM_MICRO_BATCHES)
    micro_batches = sizes.batch().chunk(NUM_MICRO_BATCHES)

    def backward() -> None:
        run_stage(
            comm,
            schedule,
            Placement(comm.size),
            modules=[part],
            micro_batches=micro_batches,
            loss=sizes.share_of_loss,
        )

    _train(sizes, list(part.parameters()), backward)
    return {name: each.detach() for name, each in part.named_parameters()}


def _pipeline_alone(rank: int, num_ranks: int, sizes: Sizes) -> Tensors:
    part = _trained_alone(sizes, sizes.layers(num_ranks))[rank]
    return {name: each.detach() for name, each in part.named_parameters()}


TRIALS = {
    "09": (
        Trial(
            "data parallelism, gradients in buckets",
            {"backward_in_buckets": backward_in_buckets},
            _bucketed,
            _bucketed_alone,
            divided=["rows"],
        ),
    ),
    "10": (
        Trial(
            "data parallelism, optimizer sharded",
            {"sharded_step": sharded_step},
            _owned,
            _owned_alone,
            divided=["rows"],
        ),
        Trial(
            "data parallelism, weights sharded",
            {"ShardedLinear": ShardedLinear},
            _sharded,
            _sharded_alone,
            divided=["rows", "width"],
        ),
    ),
    "11": (
        Trial(
            "tensor parallelism, a gated MLP",
            {"f_and_g": f_and_g, "parallel_mlp": parallel_mlp},
            _tensor_parallel,
            _tensor_parallel_alone,
            divided=["width"],
            num_layers=lambda num_ranks: 2,
        ),
        Trial(
            "context parallelism, causal attention on a ring",
            {"ring_attention": ring_attention},
            _ring,
            _ring_alone,
            divided=["rows"],
            num_layers=lambda num_ranks: 2 * num_ranks,
            has_messages=True,
        ),
    ),
    "12": (
        Trial(
            "pipeline parallelism, a layer on each rank",
            {"one_forward_one_backward": one_forward_one_backward},
            _pipeline,
            _pipeline_alone,
            divided=["rows"],
            num_parts=lambda num_ranks: NUM_MICRO_BATCHES,
            num_layers=lambda num_ranks: num_ranks,
            has_messages=True,
        ),
    ),
}
