"""The training problem: its gradients, its steps, and the error for an unreachable loss."""

import math

import pytest
import torch
from torch.nn import functional as F

from course_utils.reference.batch_experiment import (
    NUM_POINTS,
    Problem,
    batches_of,
    descend,
    learning_rates,
    losses_of_run,
    new_network,
    noise_scale,
    per_sample_gradients,
    steps_to_loss,
)


@pytest.fixture(scope="module")
def problem():
    return Problem()


def test_the_same_seed_is_the_same_problem(problem):
    assert torch.equal(problem.labels, Problem().labels)
    assert not torch.equal(problem.labels, Problem(seed=1).labels)
    assert set(problem.labels.tolist()) == {0, 1, 2, 3, 4}


def test_a_new_network_leaves_the_seed_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    new_network()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_gradients_of_examples_are_those_of_one_after_the_other(problem):
    network = new_network()
    inputs, labels = problem.batch(torch.arange(5))
    rows = per_sample_gradients(network, inputs, labels)
    for row, one, label in zip(rows, inputs, labels, strict=True):
        network.zero_grad()
        F.cross_entropy(network(one), label).backward()
        alone = torch.cat([each.grad.flatten() for each in network.parameters()])
        torch.testing.assert_close(row, alone, rtol=1e-10, atol=1e-14)  # float64, other kernels


def test_noise_scale_of_two_gradients():
    # G = (2, 0), both at a squared distance of 2 from it, |G|**2 = 4
    rows = torch.tensor([[3.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    assert noise_scale(rows) == 0.5
    assert noise_scale(rows - rows.mean(0)) == math.inf


def test_batches_average_rows():
    rows = torch.tensor([[1.0], [5.0]])
    drawn = batches_of(rows, 2, 50)
    assert drawn.shape == (50, 1)
    assert set(drawn.flatten().tolist()) == {1.0, 3.0, 5.0}


def test_the_number_of_threads_is_restored():
    num_threads = torch.get_num_threads()
    batches_of(torch.ones(1, 1), 1, 1)
    assert torch.get_num_threads() == num_threads


def test_a_step_goes_against_the_gradient(problem):
    network, moved = new_network(), new_network()
    inputs, labels = problem.batch(torch.arange(64))
    F.cross_entropy(network(inputs), labels).backward()
    descend(moved, inputs, labels, learning_rate=0.5)
    for weight, after in zip(network.parameters(), moved.parameters(), strict=True):
        torch.testing.assert_close(after.data, weight.data - 0.5 * weight.grad)


def test_a_run_gives_a_loss_for_each_step(problem):
    losses = list(losses_of_run(problem, 64, 0.4, 20))
    assert len(losses) == 20
    assert losses[-1] < losses[0] < problem.loss(new_network())


def test_steps_to_a_loss_are_those_of_the_best_rate(problem):
    steps = steps_to_loss(problem, 512, 1.0)
    ends = [list(losses_of_run(problem, 512, rate, steps))[-1] for rate in learning_rates(512)]
    assert min(ends) <= 1.0
    one_less = [list(losses_of_run(problem, 512, rate, steps - 1)) for rate in learning_rates(512)]
    assert min(loss for run in one_less for loss in run) > 1.0


def test_an_unreachable_loss_raises(problem):
    with pytest.raises(
        ValueError, match=r"no run with batches of 4,096 reaches a loss of 0\.1 in 2"
    ):
        steps_to_loss(problem, NUM_POINTS, 0.1, max_steps=2)
