"""What does recomputation save, and what does it cost?

Bytes are what the layers keep after the forward pass. FLOPs are what is recomputed, as a share of
the layers' training FLOPs without recomputation; the output head is not counted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import PercentFormatter

from course_utils import colours
from course_utils.configs import Kernels, RunConfig, preset
from course_utils.formulas.flops import forward_flops
from course_utils.formulas.recomputation import kept_bytes, recomputed_flops
from course_utils.quantities import format_bytes
from course_utils.show.picture import Picture, axes, legend_above, log_ticks, note

GIB = 2**30
AXIS_GIB = (2**-8, 2**13)  # the axis over length: every model here, with each policy

ATTENTIONS = {
    "fused": Kernels(),
    "written out": Kernels(is_attention_fused=False),
    "written out, dropout": Kernels(is_attention_fused=False, dropout_fraction=0.1),
}


def memory_against_flops(points: Mapping[str, tuple[int, float]]) -> Picture:
    """Every policy as a point: the bytes that it keeps over the FLOPs that it recomputes.

    Args:
        points: By policy, the bytes that it keeps, and its recomputed FLOPs as a fraction of the
            training FLOPs without recomputation.
    """
    figure, ax = axes(height=3.6)
    for name, (num_bytes, fraction) in points.items():
        ax.plot([fraction], [num_bytes / GIB], "o", color=colours.ACTIVATIONS)
        note(ax, name, (fraction, num_bytes / GIB), (6, 4))
    ax.set_yscale("log", base=2)
    ax.set_xlim(-0.02, 1.35 * max(fraction for _, fraction in points.values()) + 0.02)
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xlabel("FLOPs that run again, as a share of the layers' own")
    ax.set_ylabel("GiB kept by the layers (log scale)")
    cheap, small = (min(points.items(), key=lambda point: point[1][n]) for n in (1, 0))
    ends = (
        f"{format_bytes(kept)} for +{again:.1%} ({name})" for name, (kept, again) in (cheap, small)
    )
    return Picture(figure, f"The fewer bytes are kept, the more runs again: {' and '.join(ends)}.")


def recomputation_over_length(
    model: str,
    *,
    attention: str,
    recomputation: str,
    lengths: Sequence[int] = (1024, 2048, 4096, 8192),
) -> Picture:
    """What the layers keep over the sequence length, with a policy and without.

    Recomputed FLOPs are counted without early stop, relative to three forward passes of the layers.

    Args:
        model: Name of a preset.
        attention: ``"fused"``, ``"written out"`` or ``"written out, dropout"``.
        recomputation: ``"none"``, ``"selective"`` or ``"full"``.
        lengths: Tokens per sequence.
    """
    runs = [RunConfig(seq_len=each, kernels=ATTENTIONS[attention]) for each in lengths]
    without = [kept_bytes(preset(model), run, "none") for run in runs]
    kept = [kept_bytes(preset(model), run, recomputation) for run in runs]
    more = [_recomputed_fraction(model, run, recomputation) for run in runs]
    figure, ax = axes(height=3.4)
    _draw_line(ax, lengths, without, color=colours.NEUTRAL, label="no recomputation")
    if recomputation != "none":
        _draw_line(ax, lengths, kept, color=colours.ACTIVATIONS, label=recomputation)
        for length, size, again in zip(lengths, kept, more, strict=True):
            note(ax, f"+{again:.1%}", (length, size / GIB), (6, -4), va="top")  # no line is below
    ax.set_yscale("log", base=2)
    ax.set(ylim=AXIS_GIB, yticks=[2**power for power in range(-3, 13, 3)])
    log_ticks(ax, lengths)
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.margins(x=0.1)
    ax.set_xlabel("tokens of one sequence (log scale); at the dots: FLOPs that run again")
    ax.set_ylabel("GiB kept by the layers (log scale)")
    legend_above(ax, 2)
    caption = (
        f"{model}, attention {attention}: at {lengths[-1]:,} tokens the layers keep "
        f"{format_bytes(kept[-1])}, {1 - kept[-1] / without[-1]:.1%} less, for "
        f"+{more[-1]:.1%} of the layers' FLOPs."
    )
    return Picture(figure, caption)


def _draw_line(ax: Any, lengths: Sequence[int], num_bytes: Sequence[int], **style: str) -> None:
    ax.plot(lengths, [each / GIB for each in num_bytes], "o-", **style)


def _recomputed_fraction(model: str, run: RunConfig, policy: str) -> float:
    """Recomputed FLOPs over the layers' training FLOPs: forward, and backward at twice that."""
    parts = forward_flops(preset(model), run.micro_batch_size, run.seq_len)
    forward = sum(parts.values()) - parts["head"]
    return recomputed_flops(preset(model), run, policy) / (3 * forward)
