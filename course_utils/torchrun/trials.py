"""What runs on real ranks: the functions of units 09 to 12, each beside the same in plain PyTorch.

    >>> got, wanted = zip(*data_parallel(comm, COURSE_FUNCTIONS, Sizes()))

A trial gives pairs of tensors: what this rank has in the end, and what it must have.
"""

import copy
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
from course_utils.reference.gradient_sync import gradient_or_zeros
from course_utils.reference.pipeline_schedules import one_forward_one_backward
from course_utils.reference.pipeline_stage import run_stage
from course_utils.reference.sharding import ShardedLinear, sharded_step
from course_utils.reference.tensor_parallel import f_and_g, parallel_mlp

NUM_LAYERS = 4
NUM_MICRO_BATCHES = 8
COURSE_FUNCTIONS = {
    "backward_in_buckets": backward_in_buckets,
    "sharded_step": sharded_step,
    "ShardedLinear": ShardedLinear,
    "f_and_g": f_and_g,
    "parallel_mlp": parallel_mlp,
    "ring_attention": ring_attention,
    "one_forward_one_backward": one_forward_one_backward,
}

Functions = Mapping[str, Any]
Pairs = Sequence[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Sizes:
    """How much is computed, and where.

    Attributes:
        rows: Rows of the whole batch, or tokens of the sequence.
        width: Numbers in a row.
        dtype: Of all numbers.
        device: Where this rank's tensors are.
    """

    rows: int = 64
    width: int = 64
    dtype: torch.dtype = torch.float64
    device: str = "cpu"

    def numbers(self, *shape: int, seed: int = 0) -> Tensor:
        """Random numbers that are the same on every rank: drawn on the CPU in float64."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return drawn.div_(shape[-1] ** 0.5).to(self.device, self.dtype)

    def batch(self) -> Tensor:
        """The whole batch (rows, width)."""
        return self.numbers(self.rows, self.width)

    def model(self, num_layers: int = NUM_LAYERS) -> nn.Sequential:
        """Layers of one width."""
        model = nn.Sequential()
        for number in range(num_layers):
            layer = nn.Linear(self.width, self.width, bias=False)
            layer.weight = nn.Parameter(self.numbers(self.width, self.width, seed=1 + number))
            model.append(nn.Sequential(layer, nn.Tanh()))
        return model

    def share_of_loss(self, output: Tensor) -> Tensor:
        """The part that some rows have in the mean square over the whole batch."""
        return output.square().sum() / (self.rows * self.width)

    def trained_alone(self, num_layers: int = NUM_LAYERS) -> nn.Sequential:
        """The model with the gradients of the whole batch, by this process alone."""
        model = self.model(num_layers)
        self.share_of_loss(model(self.batch())).backward()
        return model


def part_of(tensor: Tensor, comm: Comm, dim: int = 0) -> Tensor:
    """This rank's part, of as many equal ones as there are ranks."""
    return tensor.detach().chunk(comm.size, dim)[comm.rank]


def _gradients(trained: Sequence[Tensor], alone: nn.Module) -> Pairs:
    return [
        (gradient_or_zeros(a), gradient_or_zeros(b))
        for a, b in zip(trained, alone.parameters(), strict=True)
    ]


def data_parallel(comm: Comm, functions: Functions, sizes: Sizes) -> Pairs:
    """Data parallelism, gradients in buckets of one weight."""
    model = sizes.model()
    loss = sizes.share_of_loss(model(part_of(sizes.batch(), comm)))
    functions["backward_in_buckets"](comm, model, loss, sizes.width**2 * sizes.dtype.itemsize)
    return _gradients([*model.parameters()], sizes.trained_alone())


def optimizer_sharded(comm: Comm, functions: Functions, sizes: Sizes) -> Pairs:
    """Data parallelism, optimizer sharded."""
    alone, model = sizes.trained_alone(), sizes.model()
    torch.optim.SGD(alone.parameters(), lr=10.0).step()
    weights = parameters_to_vector(model.parameters()).detach()
    vector_to_parameters(weights, model.parameters())  # each is a view of `weights` now
    sizes.share_of_loss(model(part_of(sizes.batch(), comm))).backward()
    gradient = parameters_to_vector([gradient_or_zeros(each) for each in model.parameters()])
    part = nn.Parameter(part_of(weights, comm).clone())
    functions["sharded_step"](comm, weights, gradient, part, torch.optim.SGD([part], lr=10.0))
    return [(weights, parameters_to_vector(alone.parameters()).detach())]


def weights_sharded(comm: Comm, functions: Functions, sizes: Sizes) -> Pairs:
    """Data parallelism, weights sharded."""
    wholes = [*sizes.trained_alone().parameters()]
    parts = [part_of(each.flatten(), comm).clone().requires_grad_() for each in wholes]
    y = part_of(sizes.batch(), comm)
    for part in parts:
        y = torch.tanh(functions["ShardedLinear"].apply(comm, y, part, (sizes.width, sizes.width)))
    sizes.share_of_loss(y).backward()
    return [
        (gradient_or_zeros(part), part_of(gradient_or_zeros(whole).flatten(), comm))
        for part, whole in zip(parts, wholes, strict=True)
    ]


def tensor_parallel(comm: Comm, functions: Functions, sizes: Sizes) -> Pairs:
    """Tensor parallelism, a gated MLP."""
    width, hidden = sizes.width, 2 * sizes.width
    shapes = {"gate": (hidden, width), "up": (hidden, width), "down": (width, hidden)}

    def leaves() -> dict[str, Tensor]:
        drawn = {
            name: sizes.numbers(*shape, seed=seed)
            for seed, (name, shape) in enumerate(shapes.items())
        }
        drawn["bias"] = sizes.numbers(width, seed=3)
        return {name: each.requires_grad_() for name, each in drawn.items()}

    x, alone = sizes.batch().requires_grad_(), leaves()
    our_x, ours = sizes.batch().requires_grad_(), leaves()
    z = F.silu(x @ alone["gate"].T) * (x @ alone["up"].T) @ alone["down"].T + alone["bias"]
    sizes.share_of_loss(z).backward()
    f, g = functions["f_and_g"](comm)
    sizes.share_of_loss(functions["parallel_mlp"](comm, f, g, our_x, ours)).backward()
    cut = {"gate": 0, "up": 0, "down": 1}
    return [
        (gradient_or_zeros(our_x), gradient_or_zeros(x)),
        (gradient_or_zeros(ours["bias"]), gradient_or_zeros(alone["bias"])),
        *(
            (
                part_of(gradient_or_zeros(ours[name]), comm, dim),
                part_of(gradient_or_zeros(alone[name]), comm, dim),
            )
            for name, dim in cut.items()
        ),
    ]


def context_parallel(comm: Comm, functions: Functions, sizes: Sizes) -> Pairs:
    """Context parallelism, causal attention on a ring."""
    positions = torch.arange(sizes.rows, device=sizes.device).view(comm.size, 1, -1)

    def attend_block(q: Tensor, k: Tensor, v: Tensor, owner: int) -> tuple[Tensor, Tensor]:
        return attend_pieces(q, k, v, positions[comm.rank], positions[owner])

    whole = [sizes.numbers(sizes.rows, sizes.width, seed=seed) for seed in range(3)]
    got = functions["ring_attention"](comm, attend_block, *(part_of(each, comm) for each in whole))
    q, k, v = (each[None, None] for each in whole)
    alone = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return [(got, part_of(alone[0, 0], comm))]


def pipeline(comm: Comm, functions: Functions, sizes: Sizes) -> Pairs:
    """Pipeline parallelism, a layer on each rank."""
    alone = sizes.trained_alone(comm.size)[comm.rank]
    stage = copy.deepcopy(alone)
    stage.zero_grad()
    run_stage(
        comm,
        functions["one_forward_one_backward"](comm.size, NUM_MICRO_BATCHES),
        Placement(comm.size),
        modules=[stage],
        micro_batches=sizes.batch().chunk(NUM_MICRO_BATCHES),
        loss=sizes.share_of_loss,
    )
    return _gradients([*stage.parameters()], alone)


Trial = Callable[[Comm, Functions, Sizes], Pairs]
TRIALS: dict[str, dict[Trial, Sequence[str]]] = {
    "09": {data_parallel: ["backward_in_buckets"]},
    "10": {optimizer_sharded: ["sharded_step"], weights_sharded: ["ShardedLinear"]},
    "11": {tensor_parallel: ["f_and_g", "parallel_mlp"], context_parallel: ["ring_attention"]},
    "12": {pipeline: ["one_forward_one_backward"]},
}
