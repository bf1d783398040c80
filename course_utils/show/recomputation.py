"""What does recomputation save, and what does it cost?

Bytes are those that the layers keep when the forward pass is over; FLOPs are those that run again,
as a share of what the layers take in training without; the output head is not among them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import PercentFormatter

from course_utils import colours
from course_utils.configs import Kernels, RunConfig, preset
from course_utils.formulas.flops import forward_flops
from course_utils.formulas.recomputation import kept_bytes, recomputed_flops
from course_utils.show.memory import bytes_as_read
from course_utils.show.picture import Picture, axes

GIB = 2**30

ATTENTIONS = {
    "fused": Kernels(),
    "written out": Kernels(is_attention_fused=False),
    "written out, dropout": Kernels(is_attention_fused=False, dropout_fraction=0.1),
}


def memory_against_flops(points: Mapping[str, tuple[int, float]]) -> Picture:
    """Every policy as a point: what it keeps over what it runs again.

    Args:
        points: For each policy by its name the bytes that it keeps, and its FLOPs that run again
            as a fraction of those of training without.
    """
    figure, pair = axes(height=3.2)
    for name, (num_bytes, fraction) in points.items():
        pair.plot([fraction], [num_bytes / GIB], "o", color=colours.ACTIVATIONS)
        place = {"xytext": (6, 4), "textcoords": "offset points"}
        pair.annotate(name, (fraction, num_bytes / GIB), fontsize=8, **place)
    pair.set_yscale("log", base=2)
    pair.set_xlim(-0.02, 1.35 * max(fraction for _, fraction in points.values()) + 0.02)
    pair.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    pair.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    pair.set_xlabel("FLOPs that run again, as a share of the layers' own")
    pair.set_ylabel("GiB kept by the layers (log scale)")
    told = (
        f"{name} {bytes_as_read(num_bytes)} for +{fraction:.1%}"
        for name, (num_bytes, fraction) in points.items()
    )
    return Picture(figure, f"Kept, and FLOPs of the layers that run again: {'; '.join(told)}.")


def recomputation_over_length(
    model: str,
    *,
    attention: str,
    recomputation: str,
    lengths: Sequence[int] = (1024, 2048, 4096, 8192),
) -> Picture:
    """What the layers keep for one sequence over its length, with a policy and without.

    FLOPs that run again are counted without early stop, of three forward passes of the layers.

    Args:
        model: Name of a preset.
        attention: ``"fused"``, ``"written out"`` or ``"written out, dropout"``.
        recomputation: ``"none"``, ``"selective"`` or ``"full"``.
        lengths: Tokens of the sequence.
    """
    runs = [RunConfig(seq_len=each, kernels=ATTENTIONS[attention]) for each in lengths]
    without = [kept_bytes(preset(model), run, "none") for run in runs]
    kept = [kept_bytes(preset(model), run, recomputation) for run in runs]
    more = [_fraction(model, run, recomputation) for run in runs]
    figure, pair = axes(height=2.8)
    _line(pair, lengths, without, color=colours.NEUTRAL, label="no recomputation")
    if recomputation != "none":
        _line(pair, lengths, kept, color=colours.ACTIVATIONS, label=recomputation)
        _label(pair, lengths, kept, [f"+{each:.1%}" for each in more])
    pair.set_xscale("log", base=2)
    pair.set_yscale("log", base=2)
    pair.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    pair.set_xticks(lengths, [f"{each:,}" for each in lengths])
    pair.set_xlabel("tokens of one sequence (log scale); at the dots: FLOPs that run again")
    pair.set_ylabel("GiB kept by the layers (log scale)")
    pair.legend(ncols=2, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)
    last = f"{bytes_as_read(kept[-1])} instead of {bytes_as_read(without[-1])}"
    caption = (
        f"{model}, one sequence in bf16, attention {attention}, recomputation {recomputation}: at "
        f"{lengths[-1]:,} tokens the layers keep {last}, {1 - kept[-1] / without[-1]:.1%} less, "
        f"for +{more[-1]:.1%} of the layers' FLOPs; at {lengths[0]:,} tokens "
        f"{1 - kept[0] / without[0]:.1%} less for +{more[0]:.1%}."
    )
    return Picture(figure, caption)


def _line(pair: Any, lengths: Sequence[int], num_bytes: Sequence[int], **style: str) -> None:
    pair.plot(lengths, [each / GIB for each in num_bytes], "o-", **style)


def _label(
    pair: Any, lengths: Sequence[int], num_bytes: Sequence[int], texts: Sequence[str]
) -> None:
    """A text below each dot, where no line is: bytes grow with the length."""
    pair.margins(x=0.08, y=0.15)
    below = {"xytext": (6, -4), "textcoords": "offset points", "va": "top", "fontsize": 8}
    for length, size, text in zip(lengths, num_bytes, texts, strict=True):
        pair.annotate(text, (length, size / GIB), **below)


def _fraction(model: str, run: RunConfig, policy: str) -> float:
    """FLOPs that run again, of three passes through the layers."""
    parts = forward_flops(preset(model), run.micro_batch_size, run.seq_len)
    forward = sum(parts.values()) - parts["head"]
    return recomputed_flops(preset(model), run, policy) / (3 * forward)
