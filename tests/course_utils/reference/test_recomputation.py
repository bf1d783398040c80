"""Recomputation changes no result and no gradient."""

import copy
import itertools
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from course_utils.configs import ModelConfig
from course_utils.instruments import count_flops, count_saved_bytes, fake_tensors, trace_memory
from course_utils.reference import Transformer, token_loss
from course_utils.reference.attention import drop
from course_utils.reference.recomputation import (
    checkpoint,
    in_segments,
    loss_in_pieces,
    run_in_segments,
    save_products,
)
from tests.random_models import KERNELS, KINDS, random_model


class Layer(nn.Module):
    """A layer with dropout, which counts its calls."""

    def __init__(self, size: int = 8, fraction: float = 0.0) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(size, 3 * size), nn.Linear(3 * size, size)
        self.double()
        self.fraction, self.num_calls = fraction, 0

    def forward(self, x):
        self.num_calls += 1
        return x + drop(self.down(torch.nn.functional.gelu(self.up(x))), self.fraction)


def numbers(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64)


def gradients(layers: nn.Module, x: torch.Tensor, is_recomputed: bool) -> list[torch.Tensor]:
    """Of input and parameters, for an upstream gradient that is not uniform."""
    x = x.clone().requires_grad_()
    torch.manual_seed(1)
    out = checkpoint(layers, x) if is_recomputed else layers(x)
    out.backward(out.detach().sin())
    found = [x.grad, *(parameter.grad for parameter in layers.parameters())]
    layers.zero_grad()
    return found


@pytest.mark.parametrize("fraction", [0.0, 0.2])
def test_gradients_are_those_of_the_plain_layer(fraction):
    layers, x = nn.Sequential(Layer(fraction=fraction), Layer(fraction=fraction)), numbers(4, 8)
    plain, again = (gradients(layers, x, flag) for flag in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))


def test_random_numbers_continue_as_without_recomputation():
    """Layers are recomputed in reverse, but their random numbers were drawn forwards."""
    layers, states = [Layer(fraction=0.2), Layer(fraction=0.2)], []
    for again in (False, True):
        x = numbers(4, 8).requires_grad_()
        for layer in layers:
            x = checkpoint(layer, x) if again else layer(x)
        x.sum().backward()
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_forward_runs_twice_and_keeps_only_its_input():
    layer, x = Layer(), numbers(4, 8).requires_grad_()
    saved = count_saved_bytes(lambda: checkpoint(layer, x), layer)
    assert (saved.total_bytes, saved.unseen, layer.num_calls) == (4 * 8 * 8, (), 1)
    checkpoint(layer, x).sum().backward()
    assert layer.num_calls == 1 + 2


def test_parameters_get_gradients_if_no_input_requires_one():
    layer = Layer()
    checkpoint(layer, numbers(4, 8)).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    frozen = Layer().requires_grad_(False)
    checkpoint(frozen, numbers(4, 8)).sum().backward()  # nothing requires one: no error either


def test_inputs_with_and_without_gradient_mix():
    x, y = numbers(3).requires_grad_(), numbers(3)
    chosen = torch.tensor([True, False, True])
    checkpoint(lambda x, y, chosen: torch.where(chosen, x * y, x), x, y, chosen).sum().backward()
    assert torch.equal(x.grad, torch.where(chosen, y, 1.0))
    assert y.grad is None


def test_autocast_is_restored():
    layer, dtypes = nn.Linear(8, 8), []

    def call(x):
        out = layer(x)
        dtypes.append(out.dtype)
        return out

    x = torch.ones(2, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        recomputed = checkpoint(call, x)
        plain = layer(x)  # must not reuse the cast weight that autograd did not record
    recomputed.float().sum().backward()  # outside of autocast
    assert dtypes == [torch.bfloat16, torch.bfloat16]
    again = layer.weight.grad.clone()
    layer.zero_grad()
    plain.float().sum().backward()
    assert torch.equal(layer.weight.grad, again)


def test_a_backward_pass_inside_autocast_reaches_the_weights():
    """Autocast caches weights that it cast in the forward pass, where nothing was recorded."""
    layer, x = nn.Linear(8, 8), torch.ones(2, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        checkpoint(layer, x).float().sum().backward()
    assert layer.weight.grad is not None


def test_nested_checkpoints_and_no_gradients():
    layer, x = Layer(), numbers(4, 8).requires_grad_()
    checkpoint(lambda x: checkpoint(layer, x), x).sum().backward()
    nested, x.grad = x.grad, None
    layer(x).sum().backward()
    assert torch.equal(nested, x.grad)
    with torch.no_grad():
        assert not checkpoint(layer, x).requires_grad


def test_nothing_is_live_when_the_backward_pass_is_over():
    layers, x = nn.Sequential(Layer(), Layer()), numbers(4, 8).requires_grad_()
    step = lambda: checkpoint(layers, x).sum().backward()  # noqa: E731
    trace = trace_memory(step, layers, x)
    parameters = sum(parameter.nbytes for parameter in layers.parameters())
    assert trace.phases[-1].end_bytes == 2 * (parameters + x.nbytes)


@pytest.mark.parametrize("layers_per_segment", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_segments_change_no_gradient(kind, layers_per_segment):
    torch.manual_seed(0)
    plain = Transformer(random_model(kind, 3))
    again = copy.deepcopy(plain)
    again.blocks = in_segments(again.blocks, layers_per_segment)
    ids = torch.randint(0, 11, (2, 16))
    for model in (plain, again):
        token_loss(model(ids), ids).backward()
    for one, other in zip(plain.parameters(), again.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("kernels", ["recomputed attention", "recomputed attention, dropout"])
def test_recomputed_attention_changes_no_gradient(kernels):
    sizes, ids = random_model("grouped", 3), torch.randint(0, 11, (2, 16))
    fraction = KERNELS[kernels].dropout_fraction
    plain = "dropout" if fraction else "every score"
    found = []
    for name in (plain, kernels):
        torch.manual_seed(0)
        model = Transformer(sizes, kernels=KERNELS[name])
        token_loss(model(ids), ids).backward()
        found.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_segments_hold_all_layers_in_order():
    layers = [nn.Linear(2, 2) for _ in range(7)]
    segments = in_segments(layers, 3)
    assert [len(segment.layers) for segment in segments] == [3, 3, 1]
    assert list(itertools.chain(*(segment.layers for segment in segments))) == layers
    with pytest.raises(ValueError, match="layers_per_segment must be above zero, got 0"):
        in_segments(layers, 0)


# A Llama block of 2 * 32 tokens, in numbers for each token: q 64, k and v 16 each, out 64, gate and
# up 160 each, down 64; attention returns 64 and one log-sum-exp for each of 8 heads.
def test_kept_products_are_not_recomputed():
    sizes = ModelConfig(
        num_layers=1, hidden_size=64, num_heads=8, num_kv_heads=2, ffn_size=160, vocab_size=256
    )
    block = Transformer(sizes).blocks[0]
    x = torch.ones(2, 32, 64, requires_grad=True)
    contexts = partial(create_selective_checkpoint_contexts, save_products)
    again = partial(torch_checkpoint, block, x, use_reentrant=False, context_fn=contexts)
    saved = count_saved_bytes(again, block)
    numbers_kept = 64 * (64 + 16 + 16 + 64 + 160 + 160 + 64 + 64 + 8)
    # the checkpoint saves the input; autograd does not see what the selective cache holds
    assert (saved.total_bytes, saved.unseen_bytes) == (4 * 64 * 64, 4 * numbers_kept)
    assert count_flops(again) == count_flops(lambda: block(x))


def test_fake_tensors_recompute_as_real_ones():
    sizes = random_model("grouped", 3)

    def traced():
        model = Transformer(sizes, kernels=KERNELS["recomputed attention, dropout"])
        model.blocks = in_segments(model.blocks)
        ids = torch.zeros(2, 16, dtype=torch.long)
        return trace_memory(lambda: token_loss(model(ids), ids).backward(), model)

    real = traced()
    with fake_tensors():
        assert traced() == real


def test_wrong_arguments_raise():
    with pytest.raises(TypeError, match="wants a function and its input tensors, got nothing"):
        checkpoint(torch.exp)
    with pytest.raises(TypeError, match="got Tensor, float"):
        checkpoint(torch.mul, torch.ones(1), 2.0)


def test_segments_run_through_a_given_checkpoint():
    layers, x, lengths = [Layer() for _ in range(5)], numbers(4, 8), []

    def through(segment, x):
        lengths.append(len(segment))
        return segment(x)

    assert torch.equal(run_in_segments(layers, x, 2, through), nn.Sequential(*layers)(x))
    assert lengths == [2, 2, 1]


def test_a_policy_saves_products_alone():
    layer, x = Layer(), numbers(4, 8).requires_grad_()
    contexts = partial(create_selective_checkpoint_contexts, save_products)
    options = {"use_reentrant": False, "context_fn": contexts}
    plain = count_flops(lambda: layer(x)).backward_flops
    again = count_flops(lambda: torch_checkpoint(layer, x, **options)).backward_flops
    assert plain == again


@pytest.mark.parametrize("num_pieces", [1, 3, 4])
def test_a_loss_in_pieces_is_the_mean_of_all_tokens(num_pieces):
    hidden, weight = numbers(11, 4).requires_grad_(), numbers(5, 4).requires_grad_()
    targets = torch.arange(11) % 5
    whole = nn.functional.cross_entropy(hidden @ weight.T, targets)
    in_pieces = loss_in_pieces(hidden, weight, targets, num_pieces, checkpoint)
    assert torch.isclose(whole, in_pieces)
    expected = torch.autograd.grad(whole, (hidden, weight))
    in_pieces.backward()
    assert all(map(torch.allclose, (hidden.grad, weight.grad), expected))
