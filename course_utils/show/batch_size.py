"""What does a batch size buy, what does it cost, and how noisy is its gradient?"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.ticker import LogLocator

from course_utils import colours
from course_utils.configs import RunConfig, device
from course_utils.formulas.batch_size import num_steps, steps_and_examples
from course_utils.show.memory_budget import STYLES, memory_parts
from course_utils.show.picture import (
    AT_LEFT,
    AT_TOP,
    Picture,
    axes,
    axes_beside,
    log_ticks,
    note,
    text_on,
)

GIB = 2**30
SEQ_LEN = 4096  # tokens per sequence in `batch_plan`
DEVICE = "A100-80"  # the device of its memory bar
MEMORY_AXIS_GIB = 200  # where its axis ends, whatever the model and the micro-batch

PROPORTIONAL: dict[str, Any] = {
    "color": colours.NEUTRAL,
    "linestyle": "--",
    "label": "in proportion to the batch",
}
IN_WORDS = "{x:,.6g}"


def steps_against_examples(
    steps: Mapping[int, int], min_steps: float, critical_batch_size: float
) -> Picture:
    """Measured runs to one loss, on the hyperbola fitted to them.

    Args:
        steps: Steps to the loss, by batch size.
        min_steps: S_min of the fit.
        critical_batch_size: B_c of the fit.
    """
    min_examples = min_steps * critical_batch_size
    figure, ax = axes(height=3.8)
    _draw_hyperbola(ax, min_steps, critical_batch_size)
    _draw_runs(ax, steps)
    _mark_minima(ax, min_steps, min_examples)
    ax.set_xscale("log", base=2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(IN_WORDS)
    ax.yaxis.set_major_locator(LogLocator(10, subs=(1, 3)))
    ax.set(xlabel="examples to the loss (log scale)", ylabel="steps to the loss (log scale)")
    ax.legend(frameon=False)
    caption = (
        f"By the fit no batch needs fewer than {min_steps:,.1f} steps or {min_examples:,.0f} "
        f"examples, and one of {critical_batch_size:,.0f} needs twice as many of both."
    )
    return Picture(figure, caption)


def _draw_runs(ax: Any, steps: Mapping[int, int]) -> None:
    """Draw each run as a dot, labelled with its batch size."""
    for size, count in steps.items():
        ax.plot([size * count], [count], "o", color=colours.MEASURED)
        note(ax, f"{size:,}", (size * count, count), (6, 5))
    ax.plot([], [], "o", color=colours.MEASURED, label="measured, with batch size")


def _mark_minima(ax: Any, min_steps: float, min_examples: float) -> None:
    """Draw the asymptotes of the hyperbola."""
    ax.axvline(min_examples, color=colours.NEUTRAL, linestyle="--", linewidth=1)
    ax.axhline(min_steps, color=colours.NEUTRAL, linestyle="--", linewidth=1)
    note(ax, "$E_{min}$", (min_examples, 1), (3, -10), xycoords=AT_TOP)
    note(ax, "$S_{min}$", (0.1, min_steps), (0, 3), xycoords=AT_LEFT)


def _draw_hyperbola(ax: Any, min_steps: float, critical: float) -> None:
    """Draw the fit, and the critical batch size on it."""
    _draw_curve(ax, min_steps, critical, range(-26, 17), label="hyperbola, fitted")
    middle = steps_and_examples(min_steps, critical, critical)
    style = {"color": colours.COMPUTED, "markersize": 9, "label": "critical batch size"}
    ax.plot([middle["examples"]], [middle["steps"]], "D", **style)
    ax.set_yscale("log")


def _draw_curve(ax: Any, min_steps: float, critical: float, quarters: range, **label: str) -> None:
    """Steps over examples, where the batch is critical times a power of two, in quarters."""
    batches = [critical * 2 ** (quarter / 4) for quarter in quarters]
    line = [steps_and_examples(min_steps, critical, each) for each in batches]
    xs, ys = [each["examples"] for each in line], [each["steps"] for each in line]
    ax.plot(xs, ys, color=colours.COMPUTED, **label)


def learning_rates(best: Mapping[int, float], anchor: int, critical_batch_size: float) -> Picture:
    """Best learning rates over the batch size, beside two rules that agree at one batch size.

    One rule is in proportion to the batch size; the other, of McCandlish et al., to
    ``1 / (1 + B_c / B)``.

    Args:
        best: The best learning rate, by batch size.
        anchor: The batch size at which both rules give the measured rate.
        critical_batch_size: B_c of the second rule.
    """
    sizes = sorted(best)
    curve = [sizes[0] * (sizes[-1] / sizes[0]) ** (n / 60) for n in range(61)]
    bend = {size: 1 / (1 + critical_batch_size / size) for size in (anchor, *curve)}
    bent = [best[anchor] * bend[size] / bend[anchor] for size in curve]
    figure, ax = axes()
    ax.plot(curve, [best[anchor] * size / anchor for size in curve], **PROPORTIONAL)
    ax.plot(curve, bent, color=colours.COMPUTED, label="in proportion to $1/(1 + B_c/B)$")
    ax.plot(sizes, [best[size] for size in sizes], "o", color=colours.MEASURED, label="measured")
    ax.set_yscale("log", base=2)
    ax.yaxis.set_major_formatter(IN_WORDS)
    log_ticks(ax, sizes)
    ax.set(xlabel="examples in a batch (log scale)", ylabel="best learning rate (log scale)")
    ax.legend(frameon=False)
    largest, factor = sizes[-1], sizes[-1] / anchor
    caption = (
        f"From batches of {anchor:,} to {largest:,} the batch grows {factor:,.0f} times, and the "
        f"best learning rate {best[largest] / best[anchor]:,.1f} times."
    )
    return Picture(figure, caption)


def noise_over_loss(
    losses: Sequence[float], exact: Sequence[float], estimated: Sequence[float]
) -> Picture:
    """The noise scale during a run, exact and estimated, as the loss falls.

    Args:
        losses: The loss at some steps of the run.
        exact: At each of them, from the gradients of all examples.
        estimated: At each of them, from batches of two sizes.
    """
    figure, ax = axes()
    ax.plot(losses, exact, "o-", color=colours.MEASURED, label="exact")
    ax.plot(losses, estimated, "x", color=colours.COMPUTED, label="estimated", markersize=9)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(10, subs=(1, 3)))
    ax.yaxis.set_major_formatter(IN_WORDS)
    ax.minorticks_off()
    ax.invert_xaxis()
    ax.set(xlabel="loss, falling from left to right", ylabel="noise scale (log scale)")
    ax.legend(frameon=False)
    caption = (
        f"While the loss falls from {losses[0]:.2f} to {losses[-1]:.2f}, the noise scale grows "
        f"from {exact[0]:,.0f} to {exact[-1]:,.0f} examples."
    )
    return Picture(figure, caption)


def noise_estimates(each: Sequence[float], of_means: float, exact: float) -> Picture:
    """A histogram of single estimates of a noise scale.

    Args:
        each: One estimate for each pair of batches; some may be infinite.
        of_means: The ratio of the mean estimates.
        exact: From the gradients of all examples.
    """
    finite = sorted(value for value in each if math.isfinite(value))
    limit = 4 * exact
    figure, ax = axes()
    clipped = [min(max(value, 0), limit) for value in finite]
    ax.hist(clipped, bins=32, range=(0, limit), color=colours.NEUTRAL)
    ax.patches[-1].set_color(colours.WRONG)
    ax.patches[-1].set_label(f"{limit * 31 / 32:,.0f} and more")
    ax.axvline(exact, color=colours.MEASURED, label=f"exact: {exact:,.0f}")
    means = f"ratio of means: {of_means:,.0f}"
    ax.axvline(of_means, color=colours.COMPUTED, linestyle="--", label=means)
    less = " (below zero: first bar)" if finite[0] < 0 else ""
    ax.set(xlabel=f"estimated noise scale, from one pair of batches{less}", ylabel="pairs")
    ax.legend(frameon=False)
    low, high = finite[len(finite) // 20], finite[-1 - len(finite) // 20]
    caption = (
        f"Of {len(each):,} estimates {len(each) - len(finite):,} are infinite, and nine of ten of "
        f"the others lie between {low:,.0f} and {high:,.0f}."
    )
    return Picture(figure, caption)


def batch_schedule(schedule: Sequence[tuple[int, int]], total_tokens: int) -> Picture:
    """A batch that grows with the tokens seen, and the steps of each stage.

    Args:
        schedule: For each stage, the tokens seen when it starts and its batch size in tokens.
        total_tokens: Tokens of the whole run.
    """
    starts = [start / 10**9 for start, _ in schedule] + [total_tokens / 10**9]
    sizes = [batch / 10**6 for _, batch in schedule]
    ends = [*(start for start, _ in schedule[1:]), total_tokens]
    counts = [num_steps(schedule[: n + 1], end) for n, end in enumerate(ends)]  # steps so far
    stages = [now - before for before, now in pairwise([0, *counts])]
    figure, ax = axes()
    ax.stairs(sizes, starts, baseline=None, color=colours.COMPUTED, linewidth=2)
    for start, end, size, count in zip(starts, starts[1:], sizes, stages, strict=False):
        middle = math.sqrt(start * end) or end / 2
        note(ax, f"{count:,} steps", (middle, size), (0, 4), ha="center")
    ax.set_xscale("symlog", linthresh=starts[1])
    ax.set_xlim(0, 1.3 * starts[-1])
    ax.set_yscale("log", base=2)
    ax.set_ylim(top=2 * sizes[-1])
    ax.set_xticks(starts, [f"{each:,.0f}" for each in starts])
    ax.set_yticks(sizes, [f"{each:g}" for each in sizes])
    ax.minorticks_off()
    ax.set_xlabel("tokens seen, in billions (log scale beyond the first stage)")
    ax.set_ylabel("batch, million tokens")
    caption = (
        f"The batch grows from {sizes[0]:g} to {sizes[-1]:g} million tokens, in {counts[-1]:,} "
        f"steps in all."
    )
    return Picture(figure, caption)


def batch_plan(
    model: str,
    *,
    global_batch_size: int,
    micro_batch_size: int,
    num_devices: int,
    critical_batch_tokens: int,
) -> Picture:
    """A global batch split into micro-batches: its place on the hyperbola, and memory per device.

    Sequences have 4,096 tokens; memory counts the training state in bf16 and what one micro-batch
    saves for backward, with the loss in fp32.

    Args:
        model: Name of a preset.
        global_batch_size: Sequences B per step.
        micro_batch_size: Sequences b per pass on one device.
        num_devices: Devices, each with the whole model.
        critical_batch_tokens: B_c in tokens, assumed or estimated.
    """
    tokens = global_batch_size * SEQ_LEN
    place = steps_and_examples(1, critical_batch_tokens, tokens)
    steps, examples = place["steps"], place["examples"] / critical_batch_tokens
    run = RunConfig(seq_len=SEQ_LEN, micro_batch_size=micro_batch_size, is_loss_fp32=True)
    parts = memory_parts(model, run)
    total_bytes = sum(parts.values())
    is_fitting = total_bytes <= device(DEVICE).memory_bytes
    figure, (left, right) = axes_beside(3.4, (3, 0.8))
    _draw_place(left, steps, examples)
    _draw_memory(right, parts, is_fitting)
    caption = (
        f"A step of {tokens:,} tokens: "
        f"{_describe_accumulation(global_batch_size, micro_batch_size, num_devices)}, with "
        f"{total_bytes / GIB:,.1f} GiB on each; that {_verdict(is_fitting)} on an {DEVICE}."
    )
    return Picture(figure, caption)


def _describe_accumulation(global_batch_size: int, micro_batch_size: int, num_devices: int) -> str:
    each = "the device" if num_devices == 1 else f"each of {num_devices:,} devices"
    num_micro_batches, rest = divmod(global_batch_size, micro_batch_size * num_devices)
    if rest:
        return f"they cannot be shared out as whole micro-batches of {micro_batch_size:,} to {each}"
    return f"{each} accumulates {num_micro_batches:,} micro-batches of {micro_batch_size:,}"


def _verdict(is_fitting: bool) -> str:
    return "fits" if is_fitting else "does not fit"


def _draw_place(ax: Any, steps: float, examples: float) -> None:
    """Draw the hyperbola in units of the fewest steps and tokens, and this batch as a dot."""
    _draw_curve(ax, 1, 1, range(-45, 30))
    ax.plot([examples], [steps], "o", color=colours.MEASURED)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set(xlim=(0.8, 2**7), ylim=(0.8, 2**11.5))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(IN_WORDS)
    ax.set(xlabel="E / E_min (log scale)", ylabel="S / S_min (log scale)")
    title = f"{steps:,.3g} times the fewest steps, {examples:,.3g} times the fewest tokens"
    ax.set_title(title, fontsize="medium")


def _draw_memory(ax: Any, parts: Mapping[str, int], is_fitting: bool) -> None:
    """Draw one bar: weights, gradients, optimizer states, and what is saved for backward."""
    saved_bytes = parts["activations"] + parts["loss"]
    height = 0.0
    for name, label, part in (
        ("weights", "weights", parts["weights"]),
        ("gradients", "gradients", parts["gradients"]),
        ("optimizer states", "optimizer", parts["optimizer states"]),
        ("activations", "saved for\nbackward", saved_bytes),
    ):
        ax.bar([0], [part / GIB], bottom=[height], **STYLES[name], label=label)
        height += part / GIB
    limit = device(DEVICE).memory_bytes / GIB
    ax.axhline(limit, color=colours.MEASURED, linestyle="--", linewidth=1, label=DEVICE)
    ax.set_title(f"{'✓' if is_fitting else '✗'} {_verdict(is_fitting)}", fontsize="medium")
    ax.set_ylim(0, MEMORY_AXIS_GIB)
    if height > MEMORY_AXIS_GIB:
        inside = {"ha": "center", "va": "top", "color": text_on(colours.ACTIVATIONS)}
        note(ax, f"{height:,.0f} ↑", (0, 1), (0, -4), xycoords=AT_TOP, **inside)
    ax.set(xticks=[], ylabel="GiB on a device")
    handles, labels = ax.get_legend_handles_labels()
    place = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False}
    ax.legend(handles[::-1], labels[::-1], **place)
