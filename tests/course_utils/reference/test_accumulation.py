"""Micro-batch gradients equal those of the whole batch; steps that are not finite are skipped."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from course_utils.reference.accumulation import (
    IGNORED,
    accumulate,
    ragged_batch,
    sum_in_fp32,
    train,
)

VOCAB_SIZE = 7
LENGTHS = [5, 1, 0, 3, 2]


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(VOCAB_SIZE, 4), nn.Linear(4, VOCAB_SIZE)).double()


def gradients(model):
    return torch.cat([each.grad.flatten() for each in model.parameters()])


def test_ragged_batch_ignores_padding_and_gives_short_rows_other_targets():
    ids, targets = ragged_batch([4, 2, 0], VOCAB_SIZE)
    assert ids.shape == targets.shape == (3, 4)
    assert (targets != IGNORED).sum(1).tolist() == [4, 2, 0]
    assert torch.equal(targets[0], (ids[0] + 1) % VOCAB_SIZE)
    assert torch.equal(targets[1, :2], (ids[1, :2] - 1) % VOCAB_SIZE)


@pytest.mark.parametrize("lengths", [[], [3, -1]])
def test_ragged_batch_rejects_impossible_lengths(lengths):
    with pytest.raises(ValueError, match="ints from 0"):
        ragged_batch(lengths, VOCAB_SIZE)


@pytest.mark.parametrize("micro_batch_size", [1, 2, 3, 5, 9])
def test_accumulated_gradients_are_those_of_the_whole_batch(micro_batch_size):
    ids, targets = ragged_batch(LENGTHS, VOCAB_SIZE)
    whole, accumulated = small_model(), small_model()
    expected = F.cross_entropy(whole(ids).flatten(0, 1), targets.flatten())
    expected.backward()
    loss = accumulate(accumulated, ids, targets, micro_batch_size)
    # The same sums in another order: some roundings of 1.1e-16.
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    assert torch.allclose(gradients(accumulated), gradients(whole), rtol=1e-9)


def test_a_batch_without_targets_changes_nothing():
    ids, targets = ragged_batch([3, 2], VOCAB_SIZE)
    model = small_model()
    assert accumulate(model, ids, torch.full_like(targets, IGNORED), 1) == 0.0
    assert all(each.grad is None for each in model.parameters())


def test_accumulate_rejects_wrong_arguments():
    ids, targets = ragged_batch([3, 2], VOCAB_SIZE)
    with pytest.raises(ValueError, match="micro_batch_size must be above zero, got 0"):
        accumulate(small_model(), ids, targets, 0)
    with pytest.raises(ValueError, match=r"\(1, 3\) and \(1, 2\)"):
        accumulate(small_model(), ids, targets[:, :2], 1)


def training_setup():
    model = small_model()
    optimizer = SGD(model.parameters(), lr=0.5)
    return model, optimizer, LambdaLR(optimizer, lambda step: 1 / (1 + step))


def micro_batches(*lengths):
    return [ragged_batch([each], VOCAB_SIZE) for each in lengths]


def test_five_micro_batches_in_twos_are_three_steps():
    model, optimizer, scheduler = training_setup()
    losses = train(model, optimizer, scheduler, micro_batches(3, 1, 2, 5, 4), 2, 1.0)
    assert len(losses) == scheduler.last_epoch == 3
    assert all(math.isfinite(each) for each in losses)


def test_a_step_is_no_longer_than_learning_rate_times_norm():
    model, optimizer, scheduler = training_setup()
    start = torch.cat([each.detach().flatten() for each in model.parameters()])
    train(model, optimizer, scheduler, micro_batches(3, 1), 2, 0.01)
    end = torch.cat([each.detach().flatten() for each in model.parameters()])
    # Clipping divides by the norm and a millionth.
    assert (end - start).norm().item() == pytest.approx(0.5 * 0.01, rel=1e-4)


@pytest.mark.parametrize("size", [math.nan, math.inf])
def test_a_group_that_is_not_finite_makes_no_step(size):
    model, optimizer, scheduler = training_setup()
    start = model[1].bias.detach().clone()
    with torch.no_grad():
        model[0].weight[0] = size  # every sequence begins with word 0
    batches = [micro_batches(3)[0], *micro_batches(0, 0)]
    results = train(model, optimizer, scheduler, batches, 1, 1.0)
    assert results == [None, None, None]
    assert scheduler.last_epoch == 0
    assert torch.equal(model[1].bias, start)


def test_gradients_from_before_are_not_part_of_a_step():
    model, optimizer, scheduler = training_setup()
    clean, *others = training_setup()
    for each in model.parameters():
        each.grad = torch.full_like(each, 3.0)
    train(model, optimizer, scheduler, micro_batches(3, 1), 2, 1.0)
    train(clean, *others, micro_batches(3, 1), 2, 1.0)
    assert torch.equal(model[1].weight, clean[1].weight)


def test_train_rejects_groups_without_micro_batches():
    with pytest.raises(ValueError, match="micro_batches_per_step must be above zero, got 0"):
        train(*training_setup(), micro_batches(1), 0, 1.0)


def test_buffers_hold_sums_that_bf16_loses():
    # 1 and a thousand times 1/512: in bf16 the sum stays 1, as 1 + 1/512 is rounded to 1.
    layer = nn.Linear(1, 1, bias=False).bfloat16()
    (buffer,) = sum_in_fp32(layer)
    for x in [1.0, *[1 / 512] * 1000]:
        layer(torch.full((1, 1), x, dtype=torch.bfloat16)).sum().backward()
    assert buffer.item() == 1 + 1000 / 512
    assert layer.weight.grad is None


def test_frozen_parameters_have_no_buffer():
    layer = nn.Linear(2, 3)
    layer.weight.requires_grad_(False)
    assert [each.shape for each in sum_in_fp32(layer)] == [(3,)]
