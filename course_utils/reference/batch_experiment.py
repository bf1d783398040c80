"""A problem that trains in a second: what do batches of different sizes need to reach a loss?

4,096 points in 20 dimensions belong to one of five classes, which a random map of them and noise
decide; a network with 32 inner units learns the classes by plain gradient descent, in float64.
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

NUM_POINTS, NUM_INPUTS, NUM_INNER, NUM_CLASSES = 4096, 20, 32, 5
NOISE = 0.3  # deviation of what is added to each class's score, which has a deviation of about one


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch works in one thread inside: on matrices as small as these a second one only waits."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


class Problem:
    """All points and their classes.

    Attributes:
        inputs: (point, input), of deviation one.
        labels: The class of each point.
    """

    def __init__(self, seed: int = 0) -> None:
        """Draw points, a random map to scores of the classes, and the noise on the scores."""
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.inputs = normal(NUM_POINTS, NUM_INPUTS)
        inner = self.inputs @ normal(NUM_INPUTS, NUM_INNER) / NUM_INPUTS**0.5
        scores = (inner + torch.tanh(2 * inner)) / 2 @ normal(NUM_INNER, NUM_CLASSES)
        scores /= NUM_INNER**0.5
        self.labels = (scores + NOISE * normal(NUM_POINTS, NUM_CLASSES)).argmax(-1)

    def batch(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels of some points, by their numbers."""
        return self.inputs[points], self.labels[points]

    def loss(self, network: nn.Module) -> float:
        """Mean loss over all points."""
        with torch.no_grad():
            return F.cross_entropy(network(self.inputs), self.labels).item()


def new_network(seed: int = 1) -> nn.Sequential:
    """The network before training, the same one for the same seed; leaves torch's seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(NUM_INPUTS, NUM_INNER, dtype=torch.float64),
            nn.Tanh(),
            nn.Linear(NUM_INNER, NUM_CLASSES, dtype=torch.float64),
        )


@one_thread()
def per_sample_gradients(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """The gradient of each example's loss, one row for each, over all parameters.

    Args:
        network: Any module that takes rows on their own.
        inputs: (example, input).
        labels: The class of each.
    """
    parameters = {name: each.detach() for name, each in network.named_parameters()}

    def loss(values: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(network, values, (one,)), label)

    gradients = vmap(grad(loss), (None, 0, 0))(parameters, inputs, labels)
    return torch.cat([each.flatten(1) for each in gradients.values()], 1)


@one_thread()
def batches_of(rows: Tensor, batch_size: int, count: int, seed: int = 0) -> Tensor:
    """Mean gradients of batches that are drawn with replacement, one row for each batch.

    Args:
        rows: The gradient of each example.
        batch_size: Examples of a batch.
        count: Batches.
        seed: Of the draw.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(rows), (count, batch_size), generator=generator)
    return torch.stack([rows[points].mean(0) for points in drawn])


def noise_scale(gradients: Tensor) -> float:
    """Simple noise scale tr(Σ) / |G|**2, in examples; infinite where G is zero.

    Args:
        gradients: (example, parameter), of all the data.
    """
    mean = gradients.mean(0)
    squared_norm = mean.square().sum().item()
    trace = (gradients - mean).square().sum(1).mean().item()
    return trace / squared_norm if squared_norm else math.inf


def descend(
    network: nn.Module, inputs: Tensor, labels: Tensor, learning_rate: float, num_steps: int = 1
) -> None:
    """Steps of gradient descent on one batch."""
    weights = list(network.parameters())
    for _ in range(num_steps):
        loss = F.cross_entropy(network(inputs), labels)
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data.sub_(gradient, alpha=learning_rate)


def losses_of_run(
    problem: Problem, batch_size: int, learning_rate: float, num_steps: int, seed: int = 7
) -> Iterator[float]:
    """The loss over all points after each step of a run from the start, one step for each asked.

    Args:
        problem: What is learned.
        batch_size: Points of each batch.
        learning_rate: Of all steps.
        num_steps: Where the run ends.
        seed: Of the batches.
    """
    for network in _run(problem, batch_size, learning_rate, num_steps, seed):
        yield problem.loss(network)


def _run(
    problem: Problem, batch_size: int, learning_rate: float, num_steps: int, seed: int
) -> Iterator[nn.Module]:
    network, generator = new_network(), torch.Generator().manual_seed(seed)
    for _ in range(num_steps):
        points = torch.randint(NUM_POINTS, (batch_size,), generator=generator)
        descend(network, *problem.batch(points), learning_rate)
        yield network


def learning_rates(batch_size: int) -> list[float]:
    """Five rates to try, a factor of four from first to last, around one that suits the batch.

    Small batches want a rate in proportion to their size, large ones a constant.
    """
    middle = 2 * batch_size / (batch_size + 256)
    return [middle * 2 ** (half / 2) for half in (0, -1, 1, -2, 2)]


@one_thread()
def steps_to_loss(
    problem: Problem, batch_size: int, loss: float, max_steps: int = 1000, seed: int = 7
) -> int:
    """Fewest steps to a loss, over the learning rates of that batch size.

    A run ends where it needs more steps than the best before it.

    Raises:
        ValueError: If no run gets there.
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


@one_thread()
def loss_after(problem: Problem, batch_size: int, num_steps: int, seed: int = 7) -> float:
    """The lowest loss at the end of runs of some steps, over the learning rates of that size."""
    rates = learning_rates(batch_size)
    runs = (_run(problem, batch_size, rate, num_steps, seed) for rate in rates)
    return min(problem.loss(list(run)[-1]) for run in runs)
