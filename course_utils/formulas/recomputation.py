"""What does recomputation save, what does it cost, and how long should a segment be?

Conventions: bytes are what the layers keep between forward and backward pass, beside what the
embedding, the last norm and the loss keep. FLOPs are those executed again, beside the three times
of a forward pass that training takes without: they count for the hardware and not for the model.

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

# Selective recomputation makes the scores and the weighted values again, full recomputation all.
POLICIES = ("none", "selective", "full")


def boundary_bytes(model: ModelConfig, run: RunConfig) -> int:
    """Bytes u of one tensor between layers: ``e s b h``."""
    tokens = run.micro_batch_size * run.seq_len
    return run.precision.activation_bytes * tokens * model.hidden_size


def kept_bytes(
    model: ModelConfig, run: RunConfig, policy: str, *, layers_per_segment: int = 1
) -> int:
    """Bytes that all layers keep when the forward pass is over.

    ``L A`` without recomputation; with the selective kind A without what the attention's core
    keeps; with the full kind ``ceil(L / k) u``.

    Args:
        model: Without latent attention and experts.
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
    checkpoint stops after the last tensor that it needs: it leaves out the last product of each
    segment, ``2 b s f h``, where no dropout comes after it, and of an attention core that is not
    fused the weighted values, ``2 b a s**2 d``.

    Args:
        model: Any, but without experts where the recomputation stops early.
        run: The micro-batch and its kernels.
        policy: One of `POLICIES`.
        layers_per_segment: Layers k that full recomputation runs at once.
        stops_early: Whether the last product of each segment is left out.

    Returns:
        A whole number of FLOPs.

    Raises:
        ValueError: If there is no such policy, if k is not above zero, or if experts stop early.
    """
    _require_policy(policy, layers_per_segment)
    if policy == "none":
        return 0
    left_out = _left_out_flops(model, run, policy) if stops_early else 0
    if policy == "selective":
        core = attention_core_flops(model, run.micro_batch_size, run.seq_len)
        return model.num_layers * (core - left_out)
    parts = forward_flops(model, run.micro_batch_size, run.seq_len)
    layers = sum(parts.values()) - parts["head"]
    return layers - _num_segments(model, layers_per_segment) * left_out


def _left_out_flops(model: ModelConfig, run: RunConfig, policy: str) -> int:
    """Of one segment or attention core: its last product, where nothing after it keeps a tensor."""
    if model.experts is not None:
        raise ValueError(
            "where the recomputation of experts stops is not known here: give a model without "
            "experts, or stops_early=False"
        )
    b, s = run.micro_batch_size, run.seq_len
    if policy == "full":
        is_needed = run.kernels.dropout_fraction > 0  # for the numbers that are dropped
        return 0 if is_needed else 2 * b * s * model.ffn_size * model.hidden_size
    sizes = model.latent_attention
    value_width = sizes.value_head_dim if sizes else model.head_dim
    is_needed = run.kernels.is_attention_fused and sizes is None  # the kernel keeps its result
    return 0 if is_needed else 2 * b * model.num_heads * s * s * value_width


def segment_peak_bytes(model: ModelConfig, run: RunConfig, layers_per_segment: int) -> int:
    """The most bytes kept at once in the backward pass: boundaries, and one segment's layers.

    ``(floor(L / k) - 1) u + k A``, where k is not above L: while the last full segment is gone
    through, the inputs of those before it are kept; its own is among what its first layer keeps. A
    shorter segment behind it keeps less: one input more, and a layer's bytes fewer.

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
    """Layers k of a segment for which the fewest bytes are kept at once.

    By trying each. The estimate ``sqrt(L u / A)`` makes ``L u / k + k A`` smallest; it is below
    one where a layer keeps more than L boundaries, and then one layer is best.
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
