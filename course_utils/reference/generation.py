"""How does a model generate token after token without computing anything twice?

The keys and values of every token go into a cache, so that a step takes the new tokens alone
through the layers. A step of one token is *decode*; the first, with the whole prompt, is *prefill*.

    >>> model = Transformer(sizes)
    >>> cache = Cache(model, num_sequences=2, max_len=40)
    >>> states = hidden_states(model, prompt, cache)  # prefill: (2, 24, h)
    >>> states = hidden_states(model, new_ids, cache)  # decode: (2, 1, h)

Conventions: rotary positions; the cache lies in buffers as long as the longest sequence, so that a
new token is written into its place and nothing that is there moves.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.reference.fused import ROPE_BASE
from course_utils.reference.layers import GroupedAttention
from course_utils.reference.transformer import Block, Transformer


class Cache:
    """Keys and values of all layers, in buffers (b, max_len, a_kv, d).

    Attributes:
        keys: A buffer for each layer.
        values: A buffer for each layer.
        length: Tokens of each sequence that are in the cache.
    """

    def __init__(self, model: Transformer, num_sequences: int, max_len: int) -> None:
        """Allocate the buffers where the model lies, in its precision."""
        sizes = attention_of(model, 0).model
        shape = num_sequences, max_len, sizes.num_kv_heads, sizes.head_dim
        weight, layers = model.head.weight, range(len(model.blocks))
        self.keys = [weight.new_empty(shape) for _ in layers]
        self.values = [weight.new_empty(shape) for _ in layers]
        self.length = 0

    @property
    def tensors(self) -> list[Tensor]:
        """All its buffers."""
        return [*self.keys, *self.values]


def hidden_states(model: Transformer, token_ids: Tensor, cache: Cache) -> Tensor:
    """What the output head reads: states of the new tokens (b, s, h) after the last norm.

    Their keys and values are added to the cache.

    Args:
        model: A Llama: rotary positions, and attention with keys and values in heads.
        token_ids: The new tokens, shape (b, s): a whole prompt, or one token.
        cache: Holds the tokens before them.

    Raises:
        ValueError: If several tokens come to a cache that is not empty, or if they do not fit.
    """
    (_, seq_len), start = token_ids.shape, cache.length
    if start and seq_len > 1:
        raise ValueError(
            f"hidden_states takes a prompt with an empty cache or one token; got {seq_len} tokens "
            f"behind {start}"
        )
    if start + seq_len > cache.keys[0].shape[1]:
        raise ValueError(
            f"the cache has room for {cache.keys[0].shape[1]} tokens, and token "
            f"{start + seq_len} comes: make it as long as prompt and new tokens together"
        )
    x: Tensor = model.embedding(token_ids)
    for layer, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        x = x + _attended(model, layer, block.attention_norm(x), cache)
        x = x + block.ffn(block.ffn_norm(x))
    cache.length = start + seq_len
    states: Tensor = model.final_norm(x)
    return states


@torch.no_grad()
def generate(model: Transformer, prompt: Tensor, num_new: int) -> Tensor:
    """The most likely next tokens of each sequence, one after the other, behind its prompt.

    Args:
        model: As for `hidden_states`.
        prompt: Token ids (b, s).
        num_new: Tokens to add to each sequence.

    Returns:
        Prompt and new tokens, (b, s + num_new).
    """
    num_sequences, seq_len = prompt.shape
    cache, tokens, new = Cache(model, num_sequences, seq_len + num_new), [prompt], prompt
    for _ in range(num_new):
        last = hidden_states(model, new, cache)[:, -1]
        new = model.head(last).argmax(-1, keepdim=True)
        tokens.append(new)
    return torch.cat(tokens, dim=1)


def attention_of(model: Transformer, layer: int) -> GroupedAttention:
    """The attention of a layer.

    Raises:
        ValueError: If it has no heads of keys and values, or if positions are learned.
    """
    attention = model.blocks[layer].attention
    if not isinstance(attention, GroupedAttention) or model.positions is not None:
        raise ValueError("a cache is for models with rotary positions and heads of keys and values")
    return attention


def _attended(model: Transformer, layer: int, x: Tensor, cache: Cache) -> Tensor:
    """Attention of the new tokens over all that are in the cache then."""
    attention = attention_of(model, layer)
    start, end = cache.length, cache.length + x.shape[1]
    q, k, v = projected(attention, x, start)
    keys, values = cache.keys[layer], cache.values[layer]
    keys[:, start:end].copy_(k)
    values[:, start:end].copy_(v)
    q, k, v = (t.transpose(1, 2) for t in (q, keys[:, :end], values[:, :end]))
    # One query sees all keys; as "causal", the kernel would show it the first one alone.
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=start == 0, enable_gqa=True)
    out: Tensor = attention.output(attended.transpose(1, 2).flatten(-2))
    return out


def projected(attention: GroupedAttention, x: Tensor, start: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries (b, s, a, d) and keys (b, s, a_kv, d), and values, of tokens (b, s, h)."""
    q, k, v = (
        project(x).unflatten(-1, (-1, attention.model.head_dim))
        for project in (attention.query, attention.key, attention.value)
    )
    return _rotated(q, start), _rotated(k, start), v


def _rotated(x: Tensor, start: int) -> Tensor:
    """Rotary positions of tokens that begin at position ``start``."""
    seq_len, head_dim = x.shape[1], x.shape[3]
    pair = torch.arange(0, head_dim, 2, device=x.device)
    position = torch.arange(start, start + seq_len, device=x.device)
    angle = position[:, None] / ROPE_BASE ** (pair / head_dim)
    cos, sin = (each(angle)[:, None].to(x.dtype) for each in (torch.cos, torch.sin))
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
