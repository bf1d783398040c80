"""How many parameters does a transformer have, and where are they?

Letters: h hidden size, a query heads, a_kv key and value heads, d head dimension, f feed-forward
size, v vocabulary, L layers. A tied head shares the embedding's matrix and is counted once.

    >>> sum(parameters(preset("Llama-3-8B")).values())
    8030261248
"""

from course_utils.configs import Experts, LatentAttention, ModelConfig
from course_utils.formulas.designs import expert_parameters


def parameters(model: ModelConfig) -> dict[str, int]:
    """Parameters of a whole model by part; the sum is the total N.

    Args:
        model: Any of the course's models.

    Returns:
        ``embedding`` (with learned positions), ``attention``, ``feed_forward``, ``norms`` and
        ``head`` (zero where it is tied), each over all layers.
    """
    h, v = model.hidden_size, model.vocab_size
    return {
        "embedding": (v + model.num_positions) * h,
        "attention": model.num_layers * attention_parameters(model),
        "feed_forward": sum(feed_forward_parameters(model, n) for n in range(model.num_layers)),
        "norms": (2 * model.num_layers + 1) * norm_parameters(h, model),
        "head": 0 if model.is_tied else v * h,
    }


def parameters_by_part(model: ModelConfig) -> dict[str, int]:
    """Parameters of a whole model, where embedding and head are one part.

    Returns:
        ``attention``, ``feed_forward``, ``norms`` and ``embedding_and_head``.
    """
    parts = parameters(model)
    return {
        **{name: parts[name] for name in ("attention", "feed_forward", "norms")},
        "embedding_and_head": parts["embedding"] + parts["head"],
    }


def active_parameters(model: ModelConfig) -> dict[str, int]:
    """Parameters that one token uses: of a mixture of experts only the chosen ones.

    Returns:
        The same parts as `parameters`; equal to it without experts.
    """
    parts = parameters(model)
    if model.experts is not None:
        layer = _expert_parameters(model, model.experts)
        idle = layer["total_parameters"] - layer["active_parameters"]
        parts["feed_forward"] -= (model.num_layers - model.experts.num_dense_layers) * idle
    return parts


def attention_parameters(model: ModelConfig) -> int:
    """Parameters of the attention of one layer: ``2 h a d + 2 h a_kv d`` without biases."""
    if model.latent_attention is not None:
        return _latent_attention_parameters(model, model.latent_attention)
    h, d = model.hidden_size, model.head_dim
    a, a_kv = model.num_heads, model.num_kv_heads
    biases = a * d + 2 * a_kv * d + h if model.has_biases else 0
    return 2 * h * a * d + 2 * h * a_kv * d + biases


def _latent_attention_parameters(model: ModelConfig, sizes: LatentAttention) -> int:
    h, a = model.hidden_size, model.num_heads
    query_width = sizes.nope_head_dim + sizes.rope_head_dim
    kv_width = sizes.nope_head_dim + sizes.value_head_dim
    query = h * sizes.q_rank + sizes.q_rank + sizes.q_rank * a * query_width
    kv = h * (sizes.kv_rank + sizes.rope_head_dim) + sizes.kv_rank + sizes.kv_rank * a * kv_width
    return query + kv + a * sizes.value_head_dim * h


def feed_forward_parameters(model: ModelConfig, layer: int) -> int:
    """Parameters of the feed-forward block of one layer: ``3 h f`` gated, ``2 h f`` plain."""
    h, f, sizes = model.hidden_size, model.ffn_size, model.experts
    if sizes is not None and layer >= sizes.num_dense_layers:
        return _expert_parameters(model, sizes)["total_parameters"]
    biases = (f if model.is_gated else 0) + f + h if model.has_biases else 0
    return (3 if model.is_gated else 2) * h * f + biases


def _expert_parameters(model: ModelConfig, sizes: Experts) -> dict[str, int]:
    return expert_parameters(
        model.hidden_size,
        sizes.num_experts,
        sizes.experts_per_token,
        sizes.expert_ffn_size,
        sizes.num_shared_experts,
    )


def norm_parameters(size: int, model: ModelConfig) -> int:
    """Parameters of one norm: a weight, and in a LayerNorm a bias, for each number."""
    return 2 * size if model.has_biases else size
