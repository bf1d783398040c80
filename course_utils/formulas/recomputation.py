"""What does recomputation save, what does it cost, and how long should a segment be?

Conventions: bytes are what the layers keep between forward and backward pass, without embedding,
last norm and loss. FLOPs are those executed again, on top of the three times a forward pass that
training always takes: they are hardware FLOPs, not model FLOPs.

Letters: L layers in segments of k, b sequences of s tokens, h hidden size, a query heads, d head
dimension, f feed-forward size; u bytes of one tensor between layers, A of all that a layer keeps.

    >>> run = RunConfig(seq_len=2048, kernels=Kernels(is_attention_fused=False))
    >>> kept_bytes(preset("GPT-3-175B"), run, "full")
    4831838208
    >>> best_layers_per_segment(preset("Llama-3-70B"), RunConfig(seq_len=8192))
    2

Sources: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, section 4; Korthikanti et
al. 2022, section 5.
"""

from dataclasses import replace

from course_utils.configs import ModelConfig, RunConfig
from course_utils.configs.validation import require_positive
from course_utils.formulas.activations import layer_saved_bytes
from course_utils.formulas.flops import attention_core_flops, forward_flops

# Selective recomputes the scores and the weighted values, full recomputes whole layers.
POLICIES = ("none", "selective", "full")


def boundary_bytes(model: ModelConfig, run: RunConfig) -> int:
    """Bytes u of one tensor between layers: ``e s b h``."""
    tokens = run.micro_batch_size * run.seq_len
    return run.precision.activation_bytes * tokens * model.hidden_size


def kept_bytes(
    model: ModelConfig, run: RunConfig, policy: str, *, layers_per_segment: int = 1
) -> int:
    """Bytes that all layers keep at the end of the forward pass.

    None: ``L A``. Selective: the same, without what the attention core keeps. Full:
    ``ceil(L / k) u``.

    Args:
        model: Without latent attention or experts.
        run: The micro-batch, its precision and kernels.
        policy: One of `POLICIES`.
        layers_per_segment: Layers k between two tensors that full recomputation keeps.

    Returns:
        A whole number of bytes.

    Raises:
        ValueError: If there is no such policy, if k is not above zero, or if the model has latent
            attention or experts.

    Source:
        Korthikanti et al. 2022, table 2.
    """
    _require_policy(policy, layers_per_segment)
    if policy == "full":
        return _num_segments(model, layers_per_segment) * boundary_bytes(model, run)
    return model.num_layers * _layer_bytes(model, run, policy == "selective")


def recomputed_flops(
    model: ModelConfig,
    run: RunConfig,
    policy: str,
    *,
    layers_per_segment: int = 1,
    stops_early: bool = False,
) -> int:
    """FLOPs that the backward pass executes again.

    Full: one forward pass of the layers. Selective: ``4 b a s**2 d`` for each layer. PyTorch's own
    checkpoint stops after the last tensor that it needs. It skips the last product of each segment,
    ``2 b s f h``, if no dropout follows, and the weighted values of an attention core that is not
    fused, ``2 b a s**2 d``.

    Args:
        model: Any; without experts if the recomputation stops early.
        run: The micro-batch and its kernels.
        policy: One of `POLICIES`.
        layers_per_segment: Layers k that full recomputation runs at once.
        stops_early: Whether the last product of each segment is skipped.

    Returns:
        A whole number of FLOPs.

    Raises:
        ValueError: If there is no such policy, if k is not above zero, or if experts stop early.
    """
    _require_policy(policy, layers_per_segment)
    if policy == "none":
        return 0
    skipped = _skipped_flops(model, run, policy) if stops_early else 0
    if policy == "selective":
        core = attention_core_flops(model, run.micro_batch_size, run.seq_len)
        return model.num_layers * (core - skipped)
    parts = forward_flops(model, run.micro_batch_size, run.seq_len)
    layers = sum(parts.values()) - parts["head"]
    return layers - _num_segments(model, layers_per_segment) * skipped


def _skipped_flops(model: ModelConfig, run: RunConfig, policy: str) -> int:
    """FLOPs of the last product of a segment or attention core, if nothing after it is kept."""
    if model.experts is not None:
        raise ValueError(
            "where the recomputation of experts stops is not known here: give a model without "
            "experts, or stops_early=False"
        )
    b, s = run.micro_batch_size, run.seq_len
    if policy == "full":
        is_needed = run.kernels.dropout_fraction > 0  # dropout comes after it and keeps its mask
        return 0 if is_needed else 2 * b * s * model.ffn_size * model.hidden_size
    sizes = model.latent_attention
    value_width = sizes.value_head_dim if sizes else model.head_dim
    is_needed = (
        run.kernels.is_attention_fused and sizes is None
    )  # the fused kernel keeps its result
    return 0 if is_needed else 2 * b * model.num_heads * s * s * value_width


def segment_peak_bytes(model: ModelConfig, run: RunConfig, layers_per_segment: int) -> int:
    """Peak of the bytes kept in the backward pass: boundaries and the layers of one segment.

    ``(floor(L / k) - 1) u + k A`` for k <= L: during the backward pass of the last full segment,
    the inputs of the segments before it are kept; its own is part of what its first layer keeps. A
    shorter segment after it keeps less: one input more, but at least one layer fewer.

    Raises:
        ValueError: If k is not above zero, or if the model has latent attention or experts.
    """
    require_positive("segment_peak_bytes", layers_per_segment=layers_per_segment)
    num_segments = _num_segments(model, layers_per_segment)
    u, layer = boundary_bytes(model, run), _layer_bytes(model, run, is_selective=False)
    in_last = model.num_layers - (num_segments - 1) * layers_per_segment
    peaks = [(num_segments - 1) * u + in_last * layer]
    if num_segments > 1:
        peaks.append((num_segments - 2) * u + layers_per_segment * layer)
    return max(peaks)


def best_layers_per_segment(model: ModelConfig, run: RunConfig) -> int:
    """Layers k of a segment with the lowest peak, found by trying each.

    The estimate ``sqrt(L u / A)`` minimises ``L u / k + k A``; it is below one if a layer keeps
    more than L boundaries, and then one layer is best.
    """
    sizes = range(1, model.num_layers + 1)
    return min(sizes, key=lambda k: segment_peak_bytes(model, run, k))


def _num_segments(model: ModelConfig, layers_per_segment: int) -> int:
    return -(-model.num_layers // layers_per_segment)


def _layer_bytes(model: ModelConfig, run: RunConfig, is_selective: bool) -> int:
    kernels = replace(run.kernels, is_attention_recomputed=is_selective)
    return sum(layer_saved_bytes(model, replace(run, kernels=kernels)).values())


def _require_policy(policy: str, layers_per_segment: int) -> None:
    require_positive("recomputation", layers_per_segment=layers_per_segment)
    if policy not in POLICIES:
        raise ValueError(f"there is no policy {policy!r}; there are {', '.join(POLICIES)}")
