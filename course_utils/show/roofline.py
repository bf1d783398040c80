"""Rooflines: how many FLOP/s can an operation reach, by how much it computes for each byte?"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from matplotlib.ticker import EngFormatter

from course_utils import colours
from course_utils.configs import DEVICES, device, preset
from course_utils.formulas.flops import forward_flops
from course_utils.formulas.roofline import (
    decode_bytes,
    decode_flops,
    decode_memory_bytes,
    step_bytes,
)
from course_utils.show.picture import Picture, axes, note

AXIS_INTENSITY = (1 / 16, 2**14)
AXIS_RATE = (3e8, 1e16)
STEP_AXIS_RATE = (1e11, 4e15)
MARKERS = {"prefill": "s", "decode": "o", "training": "D"}
STEP_COLOURS = {
    "prefill": colours.PARAMETERS,
    "decode": colours.ACTIVATIONS,
    "training": colours.OPTIMIZER_STATES,
}

# Where the name of a marker stands, free of the slope and of the line of the cache alone.
PLACES: dict[str, dict[str, Any]] = {
    name: {"xytext": offset, "textcoords": "offset points", "ha": side}
    for name, offset, side in (
        ("prefill", (6, 9), "right"),
        ("training", (30, -18), "right"),
        ("decode", (9, -7), "left"),
        ("decode, left of the line", (-9, 3), "right"),
    )
}


class Roof(NamedTuple):
    """The two rates of a device."""

    flops_per_second: float
    bytes_per_second: float

    def at(self, intensity: float) -> float:
        """FLOP/s that an operation of this intensity can reach."""
        return min(self.flops_per_second, intensity * self.bytes_per_second)

    @property
    def ridge(self) -> float:
        """The intensity at which both rates allow the same."""
        return self.flops_per_second / self.bytes_per_second


def device_roof(name: str) -> Roof:
    """The roof of a device by its data sheet, in bf16."""
    each = DEVICES[name]
    return Roof(each.dense_flops_per_second("bf16"), each.bandwidth_bytes_per_second)


def rooflines(
    roofs: Mapping[str, tuple[float, float]],
    dots: Mapping[str, tuple[float, float]],
    caches: Mapping[str, float] = MappingProxyType({}),
) -> Picture:
    """Roofs of some devices, the first one highlighted, with operations measured on that one.

    Args:
        roofs: FLOP/s and bytes/s, by the device's name.
        dots: Intensity in FLOP/B and FLOP/s reached, by the operation's name.
        caches: Bytes/s of nearer memories of the first device, by what they are called: dashed.
    """
    figure, ax = axes(height=4.4)
    labels: dict[float, list[str]] = {}
    for name, rates in roofs.items():
        labels.setdefault(rates[0], []).append(name)
    for number, (name, rates) in enumerate(roofs.items()):
        names = labels[rates[0]]  # devices of one peak share a label
        label = ", ".join(names) if name == names[0] else ""
        _draw_roof(ax, label, Roof(*rates), is_first=number == 0)
    (first, rates), *_ = roofs.items()
    for name, bytes_per_second in caches.items():
        _draw_slope(ax, name, Roof(rates[0], bytes_per_second))
    for name, (intensity, rate) in dots.items():
        ax.plot([intensity], [rate], "o", color=colours.MEASURED, markersize=5)
        down = -5 if rate > 2 * Roof(*rates).at(intensity) else -11  # between two slopes, or below
        note(ax, name, (intensity, rate), (6, down))
    _set_axes(ax, AXIS_RATE)
    reached = [rate / Roof(*rates).at(intensity) for intensity, rate in dots.values()]
    caption = (
        f"Lines are what a device allows; dots are operations that ran on {first}, at "
        f"{min(reached):.0%} to {max(reached):.0%} of its roof."
        if dots
        else f"What {first} and other devices allow."
    )
    return Picture(figure, caption)


def _draw_roof(ax: Any, name: str, roof: Roof, *, is_first: bool) -> None:
    ends = (AXIS_INTENSITY[0], roof.ridge, AXIS_INTENSITY[1])
    style: dict[str, Any] = (
        {"color": colours.COMPUTE, "linewidth": 2.5}
        if is_first
        else {"color": colours.NEUTRAL, "linewidth": 1}
    )
    ax.plot(ends, [roof.at(each) for each in ends], **style)
    end = (AXIS_INTENSITY[1], roof.flops_per_second)
    note(ax, name, end, (4, 0), color=style["color"], annotation_clip=False, va="center")


def _draw_slope(ax: Any, name: str, nearer: Roof) -> None:
    """The slope of a nearer memory, up to the roof, with its name halfway up."""
    ends = (AXIS_INTENSITY[0], nearer.ridge)
    style: dict[str, Any] = {"color": colours.COMPUTE, "linewidth": 1.5}
    ax.plot(ends, [nearer.at(each) for each in ends], linestyle="--", **style)
    middle = math.sqrt(ends[0] * ends[1])
    note(ax, name, (middle, nearer.at(middle)), (-5, 4), color=colours.COMPUTE, ha="right")


def _set_axes(ax: Any, rates: tuple[float, float]) -> None:
    ax.set_xscale("log", base=2)
    ax.set(yscale="log", xlim=AXIS_INTENSITY, ylim=rates)
    labels = {2.0**p: f"1/{2**-p}" if p < 0 else f"{2**p:,}" for p in range(-4, 15, 2)}
    ax.set_xticks(list(labels), list(labels.values()))
    ax.yaxis.set_major_formatter(EngFormatter())
    ax.minorticks_off()
    ax.set(xlabel="FLOPs for each byte that is moved (log scale)", ylabel="FLOP/s (log scale)")


def steps_on_roofline(model: str, hardware: str, num_sequences: int, seq_len: int) -> Picture:
    """Prefill, decode and training of a model on a device's roof: weights, cache and products.

    Args:
        model: Name of a preset.
        hardware: Name of a device.
        num_sequences: Sequences of the batch.
        seq_len: Tokens of each: of the prompt, in the cache, or trained on.
    """
    roof, dots = device_roof(hardware), intensities(model, num_sequences, seq_len)
    of_cache = cache_intensity(model)
    held_bytes = decode_memory_bytes(preset(model), num_sequences, seq_len)
    overflow_gb = (held_bytes - device(hardware).memory_bytes) / 1e9
    figure, ax = axes(height=4.0)
    _draw_roof(ax, hardware, roof, is_first=True)
    ax.axvline(of_cache, color=colours.TEMPORARIES, linestyle=":", linewidth=1.5)
    note(ax, "cache alone", (of_cache, STEP_AXIS_RATE[0]), (4, 4))
    for name, intensity in dots.items():
        place = "decode, left of the line" if name == "decode" and intensity < of_cache else name
        at = (min(intensity, AXIS_INTENSITY[1]), roof.at(intensity))
        colour = STEP_COLOURS[name]
        inside = "none" if name == "decode" and overflow_gb > 0 else colour
        ax.plot(*at, MARKERS[name], color=colour, mfc=inside, markersize=9, clip_on=False)
        words = f"{name}: {_in_flops_per_byte(intensity)}"
        ax.annotate(words, at, annotation_clip=False, **PLACES[place])
    _set_axes(ax, STEP_AXIS_RATE)
    share = roof.at(dots["decode"]) / roof.flops_per_second
    caption = (
        f"{model}, {num_sequences:,} × {seq_len:,} tokens on an {hardware}: decode can reach "
        f"{share:.2%} of the peak. The ridge is at {roof.ridge:,.0f} FLOP/B."
    )
    if overflow_gb > 0:
        caption += f" But weights and cache need {overflow_gb:,.0f} GB more than one device has."
    return Picture(figure, caption)


def _in_flops_per_byte(intensity: float) -> str:
    digits = f"{intensity:,.0f}" if intensity >= 100 else f"{intensity:.3g}"
    return f"{digits} FLOP/B{' →' if intensity > AXIS_INTENSITY[1] else ''}"


def intensities(model: str, num_sequences: int, seq_len: int) -> dict[str, float]:
    """FLOPs for each byte of weights and cache, by the kind of step.

    In prefill and decode the head reads the last position alone.
    """
    sizes = preset(model)
    flops = forward_flops(sizes, num_sequences, seq_len)
    of_head = flops["head"]
    forward = sum(flops.values())
    bytes_of = {
        phase: sum(step_bytes(sizes, num_sequences, seq_len, phase).values())
        for phase in ("prefill", "train")
    }
    return {
        "prefill": (forward - of_head + of_head / seq_len) / bytes_of["prefill"],
        "decode": decode_flops(sizes, num_sequences, seq_len)
        / decode_bytes(sizes, num_sequences, seq_len),
        "training": 3 * forward / bytes_of["train"],
    }


def cache_intensity(model: str) -> float:
    """FLOPs of attention for each byte of the cache in bf16: query heads per key-value head."""
    sizes = preset(model)
    return sizes.num_heads / sizes.num_kv_heads
