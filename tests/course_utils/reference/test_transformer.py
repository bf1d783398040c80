"""The reference models run, train every parameter, and attend to no later token."""

import pytest
import torch
from torch import nn

from course_utils.configs import Experts, ModelConfig
from course_utils.reference import Transformer
from course_utils.reference.experts import MixtureOfExperts
from course_utils.reference.fused import rotate
from tests.random_models import KINDS, random_model


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_gets_a_gradient(kind):
    torch.manual_seed(0)
    model = Transformer(random_model(kind, 2))
    model(torch.randint(0, 11, (2, 16))).float().logsumexp(-1).sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None]
    assert without == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("experts", "both")])
def test_a_token_changes_nothing_before_it(kind):
    """Expert choice looks at all tokens at once, so it is left out here."""
    torch.manual_seed(0)
    model = Transformer(random_model(kind, 3)).double()
    ids = torch.randint(0, 11, (1, 9))
    changed = ids.clone()
    changed[0, 6] = (ids[0, 6] + 1) % 11
    with torch.no_grad():
        before, after = model(ids), model(changed)
    # float64; the products of a changed batch may round differently in the last place
    torch.testing.assert_close(before[0, :6], after[0, :6], rtol=1e-10, atol=1e-10)
    assert not torch.allclose(before[0, 6:], after[0, 6:])


def test_grouped_attention_is_plain_attention_with_repeated_keys_and_values():
    torch.manual_seed(0)
    model = random_model("grouped", 4)
    attention = Transformer(model).blocks[0].attention
    x = torch.randn(2, 7, model.hidden_size)
    q, k, v = (
        project(x).unflatten(-1, (-1, model.head_dim))
        for project in (attention.query, attention.key, attention.value)
    )
    group = model.num_heads // model.num_kv_heads
    q, k, v = rotate(q), rotate(k).repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    scores = torch.einsum("bqad,bkad->baqk", q, k) / model.head_dim**0.5
    scores = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), float("-inf")).softmax(-1)
    expected = attention.output(torch.einsum("baqk,bkad->bqad", scores, v).flatten(-2))
    torch.testing.assert_close(attention(x), expected)  # fp32, another order of sums


def test_rotation_keeps_lengths_and_depends_on_distances_only():
    torch.manual_seed(0)
    x = torch.randn(1, 1, 1, 8).expand(1, 6, 1, 8)
    y = torch.randn(1, 1, 1, 8).expand(1, 6, 1, 8)
    one, other = rotate(x)[0, :, 0], rotate(y)[0, :, 0]
    torch.testing.assert_close(one.norm(dim=-1), x[0, :, 0].norm(dim=-1))
    torch.testing.assert_close(one[4] @ other[1], one[5] @ other[2])


def test_experts_agree_with_a_loop_over_experts():
    """An independent oracle: one expert at a time, on the tokens that it chose."""
    torch.manual_seed(0)
    sizes = Experts(num_experts=4, experts_per_token=2, expert_ffn_size=5, num_shared_experts=1)
    model = ModelConfig(
        num_layers=1, hidden_size=6, num_heads=1, ffn_size=5, vocab_size=7, experts=sizes
    )
    block = MixtureOfExperts(model, sizes, "cpu")
    x = torch.randn(2, 4, 6)
    tokens = x.flatten(0, 1)
    scores = block.router(tokens).softmax(-1)
    expected = block.shared(tokens)
    for expert in range(4):
        chosen = scores[:, expert].topk(4).indices
        inner = nn.functional.silu(tokens[chosen] @ block.gate[expert])
        output = (inner * (tokens[chosen] @ block.up[expert])) @ block.down[expert]
        expected = expected.index_add(0, chosen, output * scores[chosen, expert, None])
    torch.testing.assert_close(block(x), expected.view_as(x))


def test_unbalanced_experts_raise():
    model = random_model("experts", 0)
    with pytest.raises(ValueError, match="choose another batch or length"):
        MixtureOfExperts(
            model, Experts(num_experts=4, experts_per_token=1, expert_ffn_size=3), "cpu"
        )(torch.zeros(1, 3, model.hidden_size))


def test_tied_head_is_the_embedding():
    assert (tied := Transformer(random_model("tied", 1))).head.weight is tied.embedding.weight
    assert (
        free := Transformer(random_model("grouped", 1))
    ).head.weight is not free.embedding.weight


def test_ids_on_another_device_raise():
    sizes = ModelConfig(num_layers=1, hidden_size=8, num_heads=2, ffn_size=3, vocab_size=5)
    model = Transformer(sizes, device="meta")
    with pytest.raises(ValueError, match="lies on meta and the token ids lie on cpu"):
        model(torch.zeros(1, 2, dtype=torch.long))
