"""How many FLOPs does a piece of a transformer take?

Conventions: a multiply and an add are two operations; only matrix products count (softmax, norms
and activations add far less than one percent of a large model's FLOPs); attention counts as the
full square, not the causal half; the embedding is a lookup and takes none.

Letters: b sequences of s tokens, h hidden size, a query heads, a_kv key and value heads, d head
dimension, f feed-forward size, v vocabulary, L layers.

    >>> matmul_flops(rows=2, inner=3, columns=5)
    {'forward_flops': 60, 'backward_flops': 120}
    >>> sum(forward_flops(preset("Llama-3-8B"), num_sequences=1, seq_len=8192).values())
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
