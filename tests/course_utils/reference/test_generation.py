"""Cached steps give what the whole model gives, and move what they must, to the byte."""

import pytest
import torch

from course_utils.configs import ModelConfig, preset
from course_utils.instruments import Traffic, count_bytes, fake_tensors
from course_utils.reference import Transformer
from course_utils.reference.generation import Cache, generate, hidden_states

SIZES = {"num_layers": 2, "hidden_size": 24, "ffn_size": 31, "vocab_size": 301}
HEADS = {
    "multi-head": {"num_heads": 4},
    "grouped, wide heads": {"num_heads": 6, "num_kv_heads": 2, "head_dim": 6},
    "multi-query": {"num_heads": 3, "num_kv_heads": 1},
}


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_token_by_token_as_all_at_once(heads):
    torch.manual_seed(0)
    model = Transformer(ModelConfig(**SIZES, **heads), dtype=torch.float64)
    ids = torch.randint(301, (3, 9))
    cache = Cache(model, 3, 9)
    with torch.no_grad():
        parts = [hidden_states(model, ids[:, :6], cache)]
        parts += [hidden_states(model, ids[:, n : n + 1], cache) for n in range(6, 9)]
        torch.testing.assert_close(model.head(torch.cat(parts, 1)), model(ids))
    assert cache.length == 9


def moved(model, num_sequences, seq_len, phase):
    """Counted on fake tensors; the head reads the last position alone in prefill and decode."""
    with fake_tensors():
        built = Transformer(model, dtype=torch.bfloat16)
        cache = Cache(built, num_sequences, seq_len + 1)
        num_new = 1 if phase == "decode" else seq_len
        cache.length = seq_len - num_new if phase == "train" else seq_len * (phase == "decode")
        ids = torch.zeros(num_sequences, num_new, dtype=torch.long)
        if phase == "train":
            return count_bytes(lambda: built(ids).sum().backward(), weights=built.parameters())
        with torch.no_grad():
            return count_bytes(
                lambda: built.head(hidden_states(built, ids, cache)[:, -1]),
                weights=built.parameters(),
                cache=cache.tensors,
            )


MODELS = {name: ModelConfig(**SIZES, **heads) for name, heads in HEADS.items()}
RUNS = [(name, b, s) for name in MODELS for b, s in ((1, 8), (3, 17))]
RUNS += [("Llama-3-8B", 16, 1024), ("Llama-3-8B", 1, 8192)]


@pytest.mark.parametrize(("name", "b", "s"), RUNS)
@pytest.mark.parametrize("phase", ["prefill", "decode", "train"])
def test_weights_and_cache_to_the_byte(name, b, s, phase):
    """Two bytes a number. Each layer: queries and output, keys and values, three matrices, norms.

    Prefill and decode read each of them once, training twice; the embedding gives one row a token.
    Of each token and layer, keys and values are written; the new token attends to itself, too.
    """
    m = MODELS.get(name) or preset(name)
    h, heads, cached = m.hidden_size, m.num_heads * m.head_dim, m.num_kv_heads * m.head_dim
    whole = m.num_layers * (2 * h * heads + 2 * h * cached + 3 * h * m.ffn_size + 2 * h)
    whole += h + h * m.vocab_size
    token = 2 * 2 * m.num_layers * cached
    found = moved(m, b, s, phase)
    if phase == "train":
        assert found.of("weights") == Traffic(2 * (2 * whole + b * s * h), 0)
        return
    new = 1 if phase == "decode" else s
    assert found.of("weights") == Traffic(2 * (whole + b * new * h), 0)
    assert found.of("cache") == Traffic(token * b * (s + (phase == "decode")), token * b * new)


def test_what_makes_no_sense_is_told():
    model = Transformer(MODELS["multi-head"])
    cache = Cache(model, 1, 4)
    ids = torch.zeros(1, 3, dtype=torch.long)
    hidden_states(model, ids, cache)
    with pytest.raises(ValueError, match="got 3 tokens behind 3"):
        hidden_states(model, ids, cache)
    hidden_states(model, ids[:, :1], cache)
    with pytest.raises(ValueError, match="room for 4 tokens, and token 5 comes"):
        hidden_states(model, ids[:, :1], cache)
    with pytest.raises(ValueError, match="rotary positions"):
        Cache(Transformer(preset("GPT-2-124M"), "meta"), 1, 4)


def test_generated_tokens_are_the_most_likely_ones_of_the_whole_model():
    torch.manual_seed(0)
    model = Transformer(MODELS["grouped, wide heads"], dtype=torch.float64)
    prompt = torch.randint(301, (2, 5))
    tokens = generate(model, prompt, 6)
    assert torch.equal(tokens[:, :5], prompt)
    for n in range(5, 11):
        assert torch.equal(model(tokens[:, :n])[:, -1].argmax(-1), tokens[:, n])
