"""How does a new token attend to latent vectors without making keys and values of them?

A key is a product of a latent vector and a matrix, and a score is a product of a query and a key.
So the matrix can multiply the query, once, instead of every latent: it is *absorbed*. Likewise the
weighted sum is taken over latents, and its matrix for values multiplies the sum.

Both forms take queries of one token (b, a, nope) and (b, a, rope), latents (b, t, r) and rotary
keys (b, t, rope) that all heads share, and matrices (r, a, nope) and (r, a, width), and give
(b, a, width).

Source: DeepSeek-AI 2024, DeepSeek-V2, section 2.1 and appendix C.
"""

import torch
from torch import Tensor


def latent_attention(  # noqa: PLR0913, PLR0917  two queries, two caches, two matrices
    q_nope: Tensor,
    q_rope: Tensor,
    latents: Tensor,
    rope_keys: Tensor,
    key_up: Tensor,
    value_up: Tensor,
) -> Tensor:
    """Attention over latents as they lie in the cache, with both matrices absorbed."""
    scale = (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5
    q_latent = torch.einsum("ban,ran->bar", q_nope, key_up)
    scores = q_latent @ latents.mT + q_rope @ rope_keys.mT
    weights = (scores * scale).softmax(-1)
    return torch.einsum("bar,raw->baw", weights @ latents, value_up)


def expanded_attention(  # noqa: PLR0913, PLR0917  as above
    q_nope: Tensor,
    q_rope: Tensor,
    latents: Tensor,
    rope_keys: Tensor,
    key_up: Tensor,
    value_up: Tensor,
) -> Tensor:
    """The same result the way training makes it: keys and values of every head and token first."""
    scale = (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5
    keys = torch.einsum("btr,ran->batn", latents, key_up)
    values = torch.einsum("btr,raw->batw", latents, value_up)
    scores = (keys @ q_nope[..., None])[..., 0] + q_rope @ rope_keys.mT
    weights = (scores * scale).softmax(-1)
    out: Tensor = (weights[:, :, None] @ values)[:, :, 0]
    return out
