"""How many bytes does a transformer keep for its backward pass, and which tensors are they?

Conventions: counts what autograd keeps between the forward and the backward pass, without
parameters. A tensor that several operations need counts once, at the first of them. Temporary
tensors and gradients are left out.

Letters: b sequences of s tokens, h hidden size, a query heads, a_kv key and value heads, d head
dimension, f feed-forward size, v vocabulary, L layers, e bytes of an activation.

    >>> run = RunConfig(seq_len=8192)
    >>> layers = model_saved_bytes(preset("Llama-3-8B"), run)["layers"]
    >>> layers == 32 * sum(layer_saved_bytes(preset("Llama-3-8B"), run).values())
    True
    >>> layers
    44059066368

Sources: Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models,
section 4.1; Dao et al. 2022, FlashAttention, section 3.1.
"""

from course_utils.configs import (
    BF16_BYTES,
    FP32_BYTES,
    Kernels,
    ModelConfig,
    RunConfig,
    gpt,
    precision,
)

INDEX_BYTES = 8  # token ids are 64-bit integers
MASK_BYTES = 1  # a dropout mask holds booleans
PRECISION_OF = {2: "bf16", 4: "fp32"}  # by the bytes of an activation


def layer_saved_bytes(model: ModelConfig, run: RunConfig) -> dict[str, int]:
    """Bytes that one layer keeps, by tensor.

    A GPT layer (LayerNorm, GELU with f = 4 h, materialised attention, dropout) in 16 bits:
    ``34 s b h + 5 a s**2 b``, plus the statistics of its two norms, which the paper leaves out.

    A Llama layer (RMSNorm, gate, fused attention) with e bytes per number:
    ``e (6 s b h + 2 s b h a_kv / a + 4 s b f) + 4 a s b + 8 s b``.

    Args:
        model: Without latent attention or experts.
        run: Supplies ``micro_batch_size``, ``seq_len``, ``precision`` and ``kernels``.

    Returns:
        Whole numbers of bytes in the order of the forward pass, each named by part of the layer
        and tensor.

    Raises:
        ValueError: If the model has latent attention or experts.

    Source:
        Lecture E, activation memory (E14); Korthikanti et al. 2022, equations 1 and 2.
    """
    _require_ordinary_layers(model)
    parts = {
        "attention_norm": norm_saved_bytes(model, run),
        "attention": attention_saved_bytes(model, run),
        "ffn_norm": norm_saved_bytes(model, run),
        "ffn": feed_forward_saved_bytes(model, run),
    }
    return {f"{part}_{name}": size for part, sizes in parts.items() for name, size in sizes.items()}


def kept_by_operation(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """Bytes that single operations keep in bf16, each on a hidden state or on all scores.

    Returns:
        ``linear``, ``rms_norm``, ``gelu``, ``softmax``, ``dropout`` and ``addition``.
    """
    num_numbers = num_sequences * seq_len * hidden_size
    num_scores = num_sequences * num_heads * seq_len**2
    kept = dict.fromkeys(("linear", "rms_norm", "gelu"), 2 * num_numbers)
    kept["rms_norm"] += FP32_BYTES * num_sequences * seq_len
    return kept | {"softmax": 2 * num_scores, "dropout": MASK_BYTES * num_numbers, "addition": 0}


def gpt_layer_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """Bytes that one GPT layer keeps in 16 bits, with dropout and all scores in memory.

    Returns:
        ``norms``, ``attention``, ``scores`` and ``feed_forward``.
    """
    kernels = Kernels(is_attention_fused=False, dropout_fraction=0.1)
    run = RunConfig(micro_batch_size=num_sequences, seq_len=seq_len, kernels=kernels)
    model = gpt(hidden_size, num_heads)
    scores = sum(_core_bytes(model, run).values())
    parts = _layer_bytes_by_part(model, run)
    return parts | {"attention": parts["attention"] - scores, "scores": scores}


def llama_layer_bytes(
    model: ModelConfig, num_sequences: int, seq_len: int, element_bytes: int
) -> dict[str, int]:
    """Bytes that one Llama layer with fused attention keeps.

    Returns:
        ``norms``, ``attention`` and ``feed_forward``.
    """
    used = precision(PRECISION_OF[element_bytes])
    run = RunConfig(micro_batch_size=num_sequences, seq_len=seq_len, precision=used)
    return _layer_bytes_by_part(model, run)


def _layer_bytes_by_part(model: ModelConfig, run: RunConfig) -> dict[str, int]:
    return {
        "norms": 2 * sum(norm_saved_bytes(model, run).values()),
        "attention": sum(attention_saved_bytes(model, run).values()),
        "feed_forward": sum(feed_forward_saved_bytes(model, run).values()),
    }


def _require_ordinary_layers(model: ModelConfig) -> None:
    for name in ("latent_attention", "experts"):
        if getattr(model, name) is not None:
            raise ValueError(
                f"the bytes that {name} keep are not known here: give a model without {name}, or "
                f"count them while it runs"
            )


def norm_saved_bytes(model: ModelConfig, run: RunConfig) -> dict[str, int]:
    """Bytes that one norm keeps: its input and the statistics of each token.

    LayerNorm keeps a mean and a deviation, RMSNorm only a deviation, in fp32.
    """
    statistics = 2 * run.layer_norm_statistic_bytes if model.has_biases else FP32_BYTES
    return {"input": _hidden_bytes(model, run), "statistics": _num_tokens(run) * statistics}


def attention_saved_bytes(model: ModelConfig, run: RunConfig) -> dict[str, int]:
    """Bytes that the attention of one layer keeps, from its projections to its dropout."""
    tokens, a, d = _num_tokens(run), model.num_heads, model.head_dim
    e, kernels = run.precision.activation_bytes, run.kernels
    # Without a fused kernel, shared keys and values are copied to every query head.
    is_shared = kernels.is_attention_fused or kernels.is_attention_recomputed
    key_heads = model.num_kv_heads if is_shared else a
    return {
        "projections_input": _hidden_bytes(model, run),
        "queries": e * tokens * a * d,
        "keys": e * tokens * key_heads * d,
        **_core_bytes(model, run),
        "values": e * tokens * key_heads * d,
        "output_input": e * tokens * a * d,
        **_dropout_mask(model, run),
    }


def _core_bytes(model: ModelConfig, run: RunConfig) -> dict[str, int]:
    """Fused attention keeps one number per query and head, any other ``a s**2 b`` weights.

    Dropout adds its mask and its output; recomputed attention keeps nothing.
    """
    if run.kernels.is_attention_recomputed:
        return {}
    if run.kernels.is_attention_fused:
        return {"log_sum_exp": FP32_BYTES * model.num_heads * _num_tokens(run)}
    count = model.num_heads * run.seq_len * _num_tokens(run)
    softmax = {"softmax_output": run.precision.activation_bytes * count}
    if not run.kernels.dropout_fraction:
        return softmax
    return {
        **softmax,
        "softmax_dropout_mask": MASK_BYTES * count,
        "softmax_dropout_output": run.precision.activation_bytes * count,
    }


def feed_forward_saved_bytes(model: ModelConfig, run: RunConfig) -> dict[str, int]:
    """Bytes that the feed-forward block of one layer keeps, with its dropout.

    GELU keeps its input; a gate keeps both of its factors and the input of SiLU. A fused gate
    recomputes one of the factors.
    """
    inner = run.precision.activation_bytes * _num_tokens(run) * model.ffn_size
    names = ["gelu_input"]
    if model.is_gated:
        names = ["silu_input", "gate", "up"]
        if run.kernels.is_gate_fused:
            names.remove("gate")
    return {
        "up_input": _hidden_bytes(model, run),
        **dict.fromkeys(names, inner),
        "down_input": inner,
        **_dropout_mask(model, run),
    }


def _dropout_mask(model: ModelConfig, run: RunConfig) -> dict[str, int]:
    """``s b h`` booleans for the dropout at the end of a block."""
    if not run.kernels.dropout_fraction:
        return {}
    return {"dropout_mask": MASK_BYTES * _num_tokens(run) * model.hidden_size}


def autocast_saved_bytes(
    num_tokens: int, hidden_size: int, ffn_size: int, num_calls: int, wants_input_grad: bool
) -> dict[str, int]:
    """Bytes that linear, GELU, linear keep when called in a row in one region of autocast in bf16.

    Autocast copies each weight once. The first weight is needed for the gradient of its input,
    which every call but the first has.

    Returns:
        ``weights``, the copies that are kept, and ``activations``.
    """
    matrix = BF16_BYTES * hidden_size * ffn_size
    is_first_needed = wants_input_grad or num_calls > 1
    inputs = hidden_size + ffn_size + ffn_size
    return {
        "weights": matrix * (2 if is_first_needed else 1),
        "activations": num_calls * BF16_BYTES * num_tokens * inputs,
    }


def loss_saved_bytes(model: ModelConfig, run: RunConfig) -> dict[str, int]:
    """Bytes that the cross-entropy of one micro-batch keeps: ``s b v`` log-probabilities.

    They have the precision of the logits, or fp32 if the logits are converted first.

    Returns:
        ``log_softmax``; ``targets``, 64-bit integers; ``weight``, the one number by which the mean
        divides.
    """
    element_bytes = FP32_BYTES if run.is_loss_fp32 else run.precision.activation_bytes
    return {
        "log_softmax": element_bytes * _num_tokens(run) * model.vocab_size,
        "targets": INDEX_BYTES * _num_tokens(run),
        "weight": element_bytes,
    }


def model_saved_bytes(model: ModelConfig, run: RunConfig) -> dict[str, int]:
    """Bytes that a whole model keeps for one micro-batch, by part.

    Args:
        model: Without latent attention or experts.
        run: The micro-batch, its precision and kernels.

    Returns:
        ``embedding`` (token ids, and ids of learned positions), ``layers`` (all L of them),
        ``final_norm``, ``head`` (its input) and ``loss``.

    Raises:
        ValueError: If the model has latent attention or experts.
    """
    positions = run.seq_len if model.num_positions else 0
    return {
        "embedding": INDEX_BYTES * (_num_tokens(run) + positions),
        "layers": model.num_layers * sum(layer_saved_bytes(model, run).values()),
        "final_norm": sum(norm_saved_bytes(model, run).values()),
        "head": _hidden_bytes(model, run),
        "loss": sum(loss_saved_bytes(model, run).values()),
    }


def sequence_bytes(model: ModelConfig, seq_len: int, layer_bytes: int) -> int:
    """Bytes that a Llama-like model keeps for each sequence, in bf16 with the loss in fp32.

    Args:
        model: Without latent attention or experts.
        seq_len: Tokens of the sequence.
        layer_bytes: What one layer keeps for one sequence.
    """
    run = RunConfig(seq_len=seq_len, is_loss_fp32=True)
    parts = model_saved_bytes(model, run)
    of_the_mean = loss_saved_bytes(model, run)["weight"]  # one for all sequences
    around = sum(parts.values()) - parts["layers"] - of_the_mean
    return model.num_layers * layer_bytes + around


def _num_tokens(run: RunConfig) -> int:
    return run.micro_batch_size * run.seq_len


def _hidden_bytes(model: ModelConfig, run: RunConfig) -> int:
    """One tensor between layers, ``s b h`` activations."""
    return run.precision.activation_bytes * _num_tokens(run) * model.hidden_size
