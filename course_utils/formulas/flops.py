"""How many FLOPs does a piece of a transformer take?

Conventions: a multiply and an add are two operations; only matrix products count (softmax, norms
and activations add far less than one percent of a large model's FLOPs); attention counts as the
full square, not the causal half; the embedding is a lookup and takes none.

Letters: b sequences of s tokens, h hidden size, a query heads, a_kv key and value heads, d head
dimension, f feed-forward size, v vocabulary, L layers.

    >>> matmul_flops(rows=2, inner=3, columns=5)
    {'forward_flops': 60, 'backward_flops': 120}
    >>> model_flops(preset("Llama-3-8B"), num_sequences=1, seq_len=8192)
    158140695838720
"""

from course_utils.configs import LatentAttention, ModelConfig
from course_utils.configs.validation import require_positive


def matmul_flops(rows: int, inner: int, columns: int) -> dict[str, int]:
    """FLOPs of one matrix product and of its backward pass.

    ``A[m, d] @ B[d, n]`` takes d multiplications and d additions for each of its m n entries:
    ``2 m d n``. The backward pass makes two products of the same size, one for each gradient.

    Args:
        rows: Rows m of A; in a linear layer the number of tokens.
        inner: The size d that is summed over; in a linear layer its input width.
        columns: Columns n of B; in a linear layer its output width.

    Returns:
        ``forward_flops`` and ``backward_flops``, whole numbers, if both gradients are required.

    Raises:
        ValueError: If a size is not above zero.

    Source:
        Lecture S, primer on compute (S3).
    """
    require_positive("matmul_flops", rows=rows, inner=inner, columns=columns)
    m, d, n = rows, inner, columns
    forward = 2 * m * d * n
    grad_a = 2 * m * n * d  # dY[m, n] @ B.T[n, d]
    grad_b = 2 * d * m * n  # A.T[d, m] @ dY[m, n]
    return {"forward_flops": forward, "backward_flops": grad_a + grad_b}


def attention_flops(
    num_sequences: int, seq_len: int, num_heads: int, num_kv_heads: int, head_dim: int
) -> dict[str, int]:
    """FLOPs of one layer's attention, forward, in a model as wide as its heads together.

    Args:
        num_sequences: Sequences b.
        seq_len: Tokens s of each.
        num_heads: Query heads a.
        num_kv_heads: Key and value heads a_kv.
        head_dim: Width d of one head.

    Returns:
        ``projection_flops`` (to queries, keys, values, and out) and ``core_flops`` (scores, and
        values weighed by them).

    Raises:
        ValueError: If a size is not above zero.
    """
    require_positive("attention_flops", num_sequences=num_sequences, num_kv_heads=num_kv_heads)
    b, s, h, shared = num_sequences, seq_len, num_heads * head_dim, num_kv_heads * head_dim
    query = output = _product_flops(b * s, h, h)
    key = value = _product_flops(b * s, h, shared)
    scores = _product_flops(s, head_dim, s)
    weighted_values = _product_flops(s, s, head_dim)
    return {
        "projection_flops": query + key + value + output,
        "core_flops": b * num_heads * (scores + weighted_values),
    }


def gated_mlp_flops(num_tokens: int, hidden_size: int, ffn_size: int) -> int:
    """FLOPs of one gated feed-forward block, forward: ``6 t h f`` for t tokens.

    Args:
        num_tokens: Tokens t of the batch.
        hidden_size: Width h.
        ffn_size: Inner width f.

    Raises:
        ValueError: If a size is not above zero.
    """
    up = gate = _product_flops(num_tokens, hidden_size, ffn_size)
    down = _product_flops(num_tokens, ffn_size, hidden_size)
    return up + gate + down


def _product_flops(rows: int, inner: int, columns: int) -> int:
    return matmul_flops(rows, inner, columns)["forward_flops"]


def model_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> int:
    """FLOPs of one forward pass, from token ids to logits: the sum of `forward_flops`.

    Args:
        model: Any of the course's models.
        num_sequences: Sequences b.
        seq_len: Tokens s of each.

    Raises:
        ValueError: If a size is not above zero.
    """
    return sum(forward_flops(model, num_sequences, seq_len).values())


def forward_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> dict[str, int]:
    """FLOPs of one forward pass by part; training takes three times the sum.

    Args:
        model: Any of the course's models.
        num_sequences: Sequences b.
        seq_len: Tokens s of each.

    Returns:
        ``projections`` (to queries, keys, values, and out), ``attention`` (scores and values,
        quadratic in s), ``feed_forward``, ``router`` and ``head``, each over all layers.

    Raises:
        ValueError: If a size is not above zero.
    """
    require_positive("forward_flops", num_sequences=num_sequences, seq_len=seq_len)
    tokens, layers = num_sequences * seq_len, range(model.num_layers)
    return {
        "projections": model.num_layers * tokens * projection_flops_per_token(model),
        "attention": model.num_layers * attention_core_flops(model, num_sequences, seq_len),
        "feed_forward": tokens * sum(feed_forward_flops_per_token(model, n) for n in layers),
        "router": tokens * sum(router_flops_per_token(model, n) for n in layers),
        "head": 2 * tokens * model.hidden_size * model.vocab_size,
    }


def projection_flops_per_token(model: ModelConfig) -> int:
    """FLOPs of one layer's projections for one token: ``4 h a d + 4 h a_kv d``."""
    if model.latent_attention is not None:
        return _latent_projection_flops(model, model.latent_attention)
    h, d = model.hidden_size, model.head_dim
    return 2 * (2 * h * model.num_heads * d + 2 * h * model.num_kv_heads * d)


def _latent_projection_flops(model: ModelConfig, sizes: LatentAttention) -> int:
    h, a = model.hidden_size, model.num_heads
    query = h * sizes.q_rank + sizes.q_rank * a * (sizes.nope_head_dim + sizes.rope_head_dim)
    down = h * (sizes.kv_rank + sizes.rope_head_dim)
    up = sizes.kv_rank * a * (sizes.nope_head_dim + sizes.value_head_dim)
    return 2 * (query + down + up + a * sizes.value_head_dim * h)


def attention_core_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> int:
    """FLOPs of one layer's scores and weighted values: ``4 b a s**2 d``.

    Sharing keys and values saves memory, not FLOPs: every query head attends to every token.
    """
    b, s, a = num_sequences, seq_len, model.num_heads
    key_width = value_width = model.head_dim
    if model.latent_attention is not None:
        sizes = model.latent_attention
        key_width = sizes.nope_head_dim + sizes.rope_head_dim
        value_width = sizes.value_head_dim
    return 2 * b * a * s * s * key_width + 2 * b * a * s * s * value_width


def feed_forward_flops_per_token(model: ModelConfig, layer: int) -> int:
    """FLOPs of one layer's feed-forward block for one token: ``6 h f`` gated, ``4 h f`` plain."""
    h, sizes = model.hidden_size, model.experts
    if sizes is not None and layer >= sizes.num_dense_layers:
        experts = sizes.experts_per_token + sizes.num_shared_experts
        return 6 * h * sizes.expert_ffn_size * experts
    return (6 if model.is_gated else 4) * h * model.ffn_size


def router_flops_per_token(model: ModelConfig, layer: int) -> int:
    """FLOPs of choosing experts for one token: ``2 h E``; zero without experts."""
    sizes = model.experts
    if sizes is None or layer < sizes.num_dense_layers:
        return 0
    return 2 * model.hidden_size * sizes.num_experts


def crossover_length(model: ModelConfig) -> int:
    """The first length at which the core of the first layer's attention has caught up.

    There it takes at least as many FLOPs as the rest of the layer, projections and feed-forward
    block: ``h (1 + a_kv / a) + 3 h f / (2 a d)`` tokens, rounded up.

    Args:
        model: A model without experts in its first layer.

    Source:
        Lecture S, "majority for most L < 4D" (S7).
    """
    rest = projection_flops_per_token(model) + feed_forward_flops_per_token(model, layer=0)
    return -(-rest // attention_core_flops(model, num_sequences=1, seq_len=1))
