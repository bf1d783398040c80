"""Fused and materialised attention compute the same; dropout keeps one byte per element."""

import pytest
import torch

from course_utils.configs import Kernels, ModelConfig
from course_utils.formulas.flops import attention_core_flops
from course_utils.instruments import count_flops, count_saved_bytes
from course_utils.reference import Block
from course_utils.reference.attention import attend, attend_materialised, drop
from tests.random_models import KERNELS, KINDS, random_model


def heads(count: int) -> torch.Tensor:
    torch.manual_seed(count)
    return torch.randn(2, 7, count, 6, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 6])
def test_both_kinds_give_the_same_results_and_gradients(num_kv_heads):
    results = []
    for kind in (attend, attend_materialised):
        q, k, v = heads(6), heads(num_kv_heads), heads(num_kv_heads)
        out = kind(q, k, v * 2)
        out.backward(out.detach().sin())
        results.append((out, q.grad, k.grad, v.grad))
    for fused, materialised in zip(*results, strict=True):
        torch.testing.assert_close(fused, materialised)  # float64, another order of sums
    assert results[0][0].shape == (2, 7, 36)


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_without_dropout_change_bytes_and_no_result(kind):
    model = random_model(kind, 3)
    x, results = torch.randn(2, 8, model.hidden_size), []
    for kernels in KERNELS.values():
        torch.manual_seed(0)
        block = Block(model, 0, kernels=kernels).eval()  # no dropout
        results.append(block(x))
    for each in results[1:]:
        torch.testing.assert_close(each, results[0])  # fp32, another order of sums


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_change_no_flops_but_those_of_recomputation(kind, kernels):
    model, again = random_model(kind, 3), KERNELS[kernels].is_attention_recomputed
    x = torch.ones(2, 8, model.hidden_size, device="meta", requires_grad=True)
    plain, chosen = (Block(model, 0, "meta", kernels=k) for k in (Kernels(), KERNELS[kernels]))
    forward, backward = count_flops(lambda: plain(x))
    backward += attention_core_flops(model, 2, 8) * again
    assert count_flops(lambda: chosen(x)) == (forward, backward)


def test_dropout_keeps_one_byte_per_element_and_scales_the_rest():
    torch.manual_seed(0)
    x = torch.ones(50, 100, requires_grad=True)
    assert count_saved_bytes(lambda: drop(x, 0.25)).total_bytes == 5000
    dropped = drop(x, 0.25)
    assert set(dropped.flatten().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    # 5,000 draws of a quarter: a standard deviation of 31, and six of them
    assert abs((dropped == 0).sum().item() - 1250) < 6 * 31
    assert drop(x, 0.0) is x


def test_dropout_is_for_training_only():
    model = ModelConfig(num_layers=1, hidden_size=8, num_heads=2, ffn_size=12, vocab_size=5)
    kernels = Kernels(is_attention_fused=False, dropout_fraction=0.5)
    block, x = Block(model, 0, kernels=kernels), torch.randn(1, 4, 8)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


@pytest.mark.parametrize("kind", ["latent", "experts", "both"])
def test_every_kind_of_layer_follows_its_kernels(kind):
    """Latent attention and experts use the chosen kernels too."""
    model = random_model(kind, 3)
    x, kept = torch.randn(2, 8, model.hidden_size), {}
    for name, kernels in KERNELS.items():
        block = Block(model, model.num_layers, kernels=kernels)
        kept[name] = count_saved_bytes(lambda block=block: block(x), block).total_bytes
    assert kept["fused attention and gate"] < kept["fused attention"]
    # The CPU has no fused kernel for values narrower than keys: it materialises every score anyway.
    assert (kept["every score"] == kept["fused attention"]) == bool(model.latent_attention)
    assert kept["every score"] < kept["dropout"]
