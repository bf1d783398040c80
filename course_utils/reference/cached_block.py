"""How does one new token go through a model whose earlier keys and values are kept?

`decode_attention` is the core: write one key and one value, attend to all that are there.
`decode_step` takes a token of each sequence through all layers with it.

    >>> cache = KVCache(model, num_sequences=2, max_len=40)
    >>> logits = decode_step(model, torch.tensor([3, 7]), cache)  # (2, v)

Conventions: heads before tokens, (b, a_kv, max_len, d), so that the keys of a head lie side by
side; rotary positions; a prompt goes through token by token.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.reference.generation import attention_of, projected
from course_utils.reference.transformer import Block, Transformer

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int], Tensor]
"""Such as `decode_attention`."""


def decode_attention(  # noqa: PLR0913, PLR0917  queries, two new rows, two buffers and where they end
    q: Tensor, k_new: Tensor, v_new: Tensor, k_cache: Tensor, v_cache: Tensor, length: int
) -> Tensor:
    """Write a token's key and value into the cache, and attend to all tokens up to it.

    Args:
        q: Queries of the new token (b, a, d).
        k_new: Its keys (b, a_kv, d).
        v_new: Its values (b, a_kv, d).
        k_cache: Keys (b, a_kv, max_len, d); changed in place.
        v_cache: Values, likewise.
        length: Tokens that are in the cache before.

    Returns:
        Weighted values (b, a, d).
    """
    k_cache[:, :, length] = k_new
    v_cache[:, :, length] = v_new
    keys, values = k_cache[:, :, : length + 1], v_cache[:, :, : length + 1]
    # One query sees all keys; as "causal", the kernel would show it the first one alone.
    return F.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)[:, :, 0]


class KVCache:
    """Keys and values of all layers, in buffers (b, a_kv, max_len, d).

    Attributes:
        keys: A buffer for each layer.
        values: A buffer for each layer.
        length: Tokens of each sequence that are there.
    """

    def __init__(self, model: Transformer, num_sequences: int, max_len: int) -> None:
        """Allocate the buffers in the model's precision."""
        sizes = attention_of(model, 0).model
        shape = num_sequences, sizes.num_kv_heads, max_len, sizes.head_dim
        self.keys, self.values = (
            [model.head.weight.new_zeros(shape) for _ in model.blocks] for _ in range(2)
        )
        self.length = 0


def decode_step(
    model: Transformer, token_ids: Tensor, cache: KVCache, attend: Attend = decode_attention
) -> Tensor:
    """Logits (b, v) after one more token of each sequence (b,), which goes into the cache."""
    x: Tensor = model.embedding(token_ids)
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        attention, normed = attention_of(model, layer), block.attention_norm(x)
        q, k, v = (each[:, 0] for each in projected(attention, normed[:, None], cache.length))
        out = attend(q, k, v, cache.keys[layer], cache.values[layer], cache.length)
        x = x + attention.output(out.flatten(1))
        x = x + block.ffn(block.ffn_norm(x))
    cache.length += 1
    logits: Tensor = model.head(model.final_norm(x))
    return logits


@torch.no_grad()
def generate_cached(
    model: Transformer, prompt: Tensor, num_new: int, attend: Attend = decode_attention
) -> Tensor:
    """Prompt (b, s) and its most likely next tokens, (b, s + num_new)."""
    tokens = [*prompt.unbind(1)]
    cache = KVCache(model, len(prompt), len(tokens) + num_new)
    for position in range(len(tokens) + num_new - 1):
        logits = decode_step(model, tokens[position], cache, attend)
        if position + 1 == len(tokens):
            tokens.append(logits.argmax(-1))
    return torch.stack(tokens, dim=1)
