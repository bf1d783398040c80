"""What does recomputation save, what does it cost, and how long should a segment be?

Conventions: bytes are what the layers keep between forward and backward pass, without embedding,
last norm and loss. FLOPs are those executed again, on top of the three times a forward pass that
training always takes: they are hardware FLOPs, not model FLOPs.

Letters: L layers in segments of k, b sequences of s tokens, h hidden size, a query heads, d head
dimension, f feed-forward size; u bytes of one tensor between layers, A of all that a layer keeps.

    >>> run = RunConfig(seq_len=2048, kernels=Kernels(is_attention_fused=False))
    >>> kept_bytes(preset("GPT-3-175B"), run, "full")
    4831838208
    >>> segment_peak_bytes(preset("Llama-3-70B"), RunConfig(seq_len=8192), layers_per_segment=2)
    10674634752

Sources: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, section 4; Korthikanti et
al. 2022, section 5.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from course_utils.configs import Kernels, ModelConfig, RunConfig
from course_utils.configs.validation import require_positive
from course_utils.formulas.activations import layer_saved_bytes
from course_utils.formulas.flops import attention_core_flops, forward_flops

# Selective recomputes the scores and the weighted values, full recomputes whole layers.
POLICIES = ("none", "selective", "full")


def boundary_bytes(model: ModelConfig, run: RunConfig) -> int:
    """Bytes u of one tensor between layers: ``e s b h``."""
    tokens = run.micro_batch_size * run.seq_len
    return run.precision.activation_bytes * tokens * model.hidden_size


def kept_bytes(model: ModelConfig, run: RunConfig, policy: str) -> int:
    """Bytes that all layers keep at the end of the forward pass.

    None: ``L A``. Selective: the same, without what the attention core keeps. Full, layer by layer:
    ``L u``.

    Args:
        model: Without latent attention or experts.
        run: The micro-batch, its precision and kernels.
        policy: One of `POLICIES`.

    Returns:
        A whole number of bytes.

    Raises:
        ValueError: If there is no such policy, or if the model has latent attention or experts.

    Source:
        Korthikanti et al. 2022, table 2.
    """
    _require_policy(policy)
    if policy == "full":
        return model.num_layers * boundary_bytes(model, run)
    return model.num_layers * _layer_bytes(model, run, policy == "selective")


def recomputed_flops(
    model: ModelConfig, run: RunConfig, policy: str, *, stops_early: bool = False
) -> int:
    """FLOPs that the backward pass executes again.

    Full: one forward pass of the layers. Selective: ``4 b a s**2 d`` for each layer. PyTorch's own
    checkpoint stops after the last tensor that it needs. It skips the last product of each layer,
    ``2 b s f h``, if no dropout follows, and the weighted values of an attention core that is not
    fused, ``2 b a s**2 d``.

    Args:
        model: Any; without experts if the recomputation stops early.
        run: The micro-batch and its kernels.
        policy: One of `POLICIES`.
        stops_early: Whether the last product of each layer or core is skipped.

    Returns:
        A whole number of FLOPs.

    Raises:
        ValueError: If there is no such policy, or if experts stop early.
    """
    _require_policy(policy)
    if policy == "none":
        return 0
    skipped = _skipped_flops(model, run, policy) if stops_early else 0
    if policy == "selective":
        core = attention_core_flops(model, run.micro_batch_size, run.seq_len)
        return model.num_layers * (core - skipped)
    parts = forward_flops(model, run.micro_batch_size, run.seq_len)
    layers = sum(parts.values()) - parts["head"]
    return layers - model.num_layers * skipped


def recomputed_flops_of_layer(
    model: ModelConfig, num_sequences: int, seq_len: int
) -> dict[str, int]:
    """FLOPs that run again in one layer with attention written out, without and with early stop.

    Returns:
        ``"full"``, ``"full_early"``, ``"selective"`` and ``"selective_early"``.
    """
    kernels = Kernels(is_attention_fused=False)
    run = RunConfig(micro_batch_size=num_sequences, seq_len=seq_len, kernels=kernels)
    layer = replace(model, num_layers=1)
    return {
        policy + suffix: recomputed_flops(layer, run, policy, stops_early=stops_early)
        for policy in ("full", "selective")
        for suffix, stops_early in (("", False), ("_early", True))
    }


def _skipped_flops(model: ModelConfig, run: RunConfig, policy: str) -> int:
    """FLOPs of the last product of a layer or attention core, if nothing after it is kept."""
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


def segment_bytes(
    num_layers: int, layers_per_segment: int, boundary_bytes: int, layer_bytes: int
) -> dict[str, int]:
    """Bytes that layers in segments keep after the forward pass, and at the backward pass's peak.

    ``ceil(L / k) u``, and ``(floor(L / k) - 1) u + k A`` for k <= L: during the backward pass of
    the last full segment, the inputs of the segments before it are kept; its own is part of what
    its first layer keeps. A shorter segment after it keeps less: one input more, but at least one
    layer fewer.

    Args:
        num_layers: Layers L.
        layers_per_segment: Layers k of each segment but perhaps the last.
        boundary_bytes: Bytes u of one tensor between layers.
        layer_bytes: Bytes A that one layer keeps when it records, its input among them.

    Returns:
        ``"after_forward"`` and ``"peak"``.

    Raises:
        ValueError: If k is not above zero.
    """
    require_positive("segment_bytes", layers_per_segment=layers_per_segment)
    size = min(layers_per_segment, num_layers)
    peak = (num_layers // size - 1) * boundary_bytes + size * layer_bytes
    return {"after_forward": -(-num_layers // size) * boundary_bytes, "peak": peak}


def segment_peak_bytes(model: ModelConfig, run: RunConfig, layers_per_segment: int) -> int:
    """Peak of the bytes kept in the backward pass: boundaries and the layers of one segment.

    Raises:
        ValueError: If k is not above zero, or if the model has latent attention or experts.
    """
    u, layer = boundary_bytes(model, run), _layer_bytes(model, run, is_selective=False)
    return segment_bytes(model.num_layers, layers_per_segment, u, layer)["peak"]


def cheapest_plan(
    num_layers: int, options: Sequence[dict[str, Any]], cap_bytes: int
) -> dict[str, int]:
    """How many layers take which option, so that the bytes fit and the fewest FLOPs run again.

    Layer by layer, for every sum of bytes that can occur, the plan with the fewest FLOPs.

    Args:
        num_layers: Equal layers.
        options: Each with ``"name"``, ``"kept_bytes"`` and ``"recomputed_flops"`` of one layer.
        cap_bytes: What all layers may keep together.

    Returns:
        Numbers of layers by name; empty if nothing fits.
    """
    cheapest = {0: (0, dict.fromkeys((each["name"] for each in options), 0))}
    for _ in range(num_layers):
        longer: dict[int, tuple[int, dict[str, int]]] = {}
        for kept, (flops, plan) in cheapest.items():
            for each in options:
                total, cost = kept + each["kept_bytes"], flops + each["recomputed_flops"]
                if total <= cap_bytes and (total not in longer or cost < longer[total][0]):
                    longer[total] = cost, plan | {each["name"]: plan[each["name"]] + 1}
        cheapest = longer
    return min(cheapest.values(), key=lambda pair: pair[0], default=(0, {}))[1]


def _layer_bytes(model: ModelConfig, run: RunConfig, is_selective: bool) -> int:
    kernels = replace(run.kernels, is_attention_recomputed=is_selective)
    return sum(layer_saved_bytes(model, replace(run, kernels=kernels)).values())


def _require_policy(policy: str) -> None:
    if policy not in POLICIES:
        raise ValueError(f"there is no policy {policy!r}; there are {', '.join(POLICIES)}")
