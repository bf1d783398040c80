"""A problem that trains in a second: what do batches of different sizes need to reach a loss?

4,096 points in 20 dimensions each belong to one of five classes, decided by a random map plus
noise; a network with 32 hidden units learns the classes by plain gradient descent, in float64.
Batches are drawn with replacement, as the theory of the noise scale assumes.

    >>> problem, network = Problem(), new_network()
    >>> per_sample_gradients(network, *problem.batch(torch.arange(8))).shape
    torch.Size([8, 837])
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

NUM_POINTS, NUM_INPUTS, NUM_HIDDEN, NUM_CLASSES = 4096, 20, 32, 5
NOISE = 0.3  # standard deviation of the noise on each class's score; the score's own is about one


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: for matrices this small a second thread only waits."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


class Problem:
    """All points and their classes.

    Attributes:
        inputs: (point, input), with standard deviation one.
        labels: The class of each point.
    """

    def __init__(self, seed: int = 0) -> None:
        """Draw points, a random map to class scores, and the noise on the scores."""
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.inputs = normal(NUM_POINTS, NUM_INPUTS)
        hidden = self.inputs @ normal(NUM_INPUTS, NUM_HIDDEN) / NUM_INPUTS**0.5
        scores = (hidden + torch.tanh(2 * hidden)) / 2 @ normal(NUM_HIDDEN, NUM_CLASSES)
        scores /= NUM_HIDDEN**0.5
        self.labels = (scores + NOISE * normal(NUM_POINTS, NUM_CLASSES)).argmax(-1)

    def batch(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels of some points, by index."""
        return self.inputs[points], self.labels[points]

    def loss(self, network: nn.Module) -> float:
        """Mean loss over all points."""
        with torch.no_grad():
            return F.cross_entropy(network(self.inputs), self.labels).item()


def new_network(seed: int = 1) -> nn.Sequential:
    """The untrained network, the same for the same seed; torch's global seed is untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(NUM_INPUTS, NUM_HIDDEN, dtype=torch.float64),
            nn.Tanh(),
            nn.Linear(NUM_HIDDEN, NUM_CLASSES, dtype=torch.float64),
        )


@one_thread()
def per_sample_gradients(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """The gradient of each example's loss over all parameters, one row per example.

    Args:
        network: Any module that treats each row on its own.
        inputs: (example, input).
        labels: The class of each example.
    """
    parameters = {name: each.detach() for name, each in network.named_parameters()}

    def loss(values: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(network, values, (one,)), label)

    gradients = vmap(grad(loss), (None, 0, 0))(parameters, inputs, labels)
    return torch.cat([each.flatten(1) for each in gradients.values()], 1)


@one_thread()
def batches_of(rows: Tensor, batch_size: int, count: int, seed: int = 0) -> Tensor:
    """Mean gradients of batches drawn with replacement, one row per batch.

    Args:
        rows: The gradient of each example.
        batch_size: Examples per batch.
        count: Number of batches.
        seed: Seed of the draw.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(rows), (count, batch_size), generator=generator)
    return torch.stack([rows[points].mean(0) for points in drawn])


def noise_scale(gradients: Tensor) -> float:
    """Simple noise scale tr(Σ) / |G|**2, in examples; infinite where G is zero.

    Args:
        gradients: (example, parameter), over all the data.
    """
    mean = gradients.mean(0)
    squared_norm = mean.square().sum().item()
    trace = (gradients - mean).square().sum(1).mean().item()
    return trace / squared_norm if squared_norm else math.inf


def descend(
    network: nn.Module, inputs: Tensor, labels: Tensor, learning_rate: float, num_steps: int = 1
) -> None:
    """Take steps of gradient descent on one batch."""
    weights = list(network.parameters())
    for _ in range(num_steps):
        loss = F.cross_entropy(network(inputs), labels)
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data.sub_(gradient, alpha=learning_rate)


def losses_of_run(
    problem: Problem, batch_size: int, learning_rate: float, num_steps: int, seed: int = 7
) -> Iterator[float]:
    """The loss over all points after each step of a run from the start; steps run on demand.

    Args:
        problem: What is learned.
        batch_size: Points per batch.
        learning_rate: The same for all steps.
        num_steps: Length of the run.
        seed: Seed of the batches.
    """
    network, generator = new_network(), torch.Generator().manual_seed(seed)
    for _ in range(num_steps):
        points = torch.randint(NUM_POINTS, (batch_size,), generator=generator)
        descend(network, *problem.batch(points), learning_rate)
        yield problem.loss(network)


def learning_rates(batch_size: int) -> list[float]:
    """Five rates to try, spanning a factor of four around one that suits the batch.

    For small batches the best rate grows in proportion to the size, for large ones it is constant.
    """
    middle = 2 * batch_size / (batch_size + 256)
    return [middle * 2 ** (halves / 2) for halves in (0, -1, 1, -2, 2)]


@one_thread()
def steps_to_loss(
    problem: Problem, batch_size: int, loss: float, max_steps: int = 1000, seed: int = 7
) -> int:
    """Fewest steps to a loss, over the learning rates for that batch size.

    A run stops as soon as it needs more steps than the best one so far.

    Raises:
        ValueError: If no run reaches the loss.
    """
    best = max_steps + 1
    for rate in learning_rates(batch_size):
        run = enumerate(losses_of_run(problem, batch_size, rate, best - 1, seed), start=1)
        best = next((step for step, now in run if now <= loss), best)
    if best > max_steps:
        raise ValueError(
            f"no run with batches of {batch_size:,} reaches a loss of {loss} in {max_steps:,} "
            f"steps: give a higher loss or more steps"
        )
    return best
