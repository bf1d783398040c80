"""What does a batch size buy, what does it cost, and how noisy is its gradient?"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from course_utils import colours
from course_utils.configs import RunConfig, device, preset
from course_utils.formulas.activations import model_saved_bytes
from course_utils.formulas.batch_size import num_steps, steps_and_examples
from course_utils.formulas.memory import state_bytes
from course_utils.formulas.parameters import parameters
from course_utils.show.picture import Picture, axes

GIB = 2**30
SEQ_LEN = 4096  # tokens of a sequence in `batch_plan`
DEVICE = "A100-80"  # whose memory it shows


def steps_against_examples(
    steps: Mapping[int, int], min_steps: float, critical_batch_size: float
) -> Picture:
    """Measured runs to one loss on the hyperbola that was fitted to them.

    Args:
        steps: Steps to the loss by batch size.
        min_steps: S_min of the fit.
        critical_batch_size: B_c of the fit.
    """
    min_examples = min_steps * critical_batch_size
    figure, pair = axes(height=3.4)
    _hyperbola(pair, min_steps, critical_batch_size)
    for size, count in steps.items():
        pair.plot([size * count], [count], "o", color=colours.MEASURED)
        place = {"xytext": (6, 5), "textcoords": "offset points", "fontsize": 8}
        pair.annotate(f"{size:,}", (size * count, count), **place)
    pair.plot([], [], "o", color=colours.MEASURED, label="measured, with batch size")
    pair.axvline(min_examples, color=colours.NEUTRAL, linestyle="--", linewidth=1)
    pair.axhline(min_steps, color=colours.NEUTRAL, linestyle="--", linewidth=1)
    beside = {"textcoords": "offset points", "fontsize": 8, "color": colours.NEUTRAL}
    pair.annotate("E_min", (min_examples, 1), xytext=(3, -8), xycoords=_AT_TOP, **beside)
    pair.annotate("S_min", (0.1, min_steps), xytext=(0, 3), xycoords=_AT_LEFT, **beside)
    pair.set_xscale("log", base=2)
    pair.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    pair.set_xlabel("examples to the loss (log scale)")
    pair.set_ylabel("steps to it (log scale)")
    pair.legend(frameon=False, fontsize=8)
    caption = (
        f"Steps against examples: by the fit no batch needs fewer than {min_steps:,.1f} steps or "
        f"than {min_examples:,.0f} examples, and one of the critical batch size, "
        f"{critical_batch_size:,.0f}, needs twice as many of both. Measured: "
        f"{_runs_in_words(steps)}; the steps of a batch size differ from those of the hyperbola "
        f"by up to {_farthest(steps, min_steps, critical_batch_size):.0%}."
    )
    return Picture(figure, caption)


# Where a label stands: at a number of one axis, and at an end of the other.
_AT_TOP, _AT_LEFT = ("data", "axes fraction"), ("axes fraction", "data")


def _farthest(steps: Mapping[int, int], min_steps: float, critical: float) -> float:
    """The largest relative deviation of measured steps from those of the fit."""
    fitted = {size: steps_and_examples(min_steps, critical, size)["steps"] for size in steps}
    return max(abs(count / fitted[size] - 1) for size, count in steps.items())


def _runs_in_words(steps: Mapping[int, int]) -> str:
    told = (f"{size * count:,} examples in {count:,} steps" for size, count in steps.items())
    return "; ".join(
        f"batches of {size:,}, {words}" for size, words in zip(steps, told, strict=True)
    )


def _hyperbola(pair: Any, min_steps: float, critical: float) -> None:
    """The line, and where the critical batch size lies on it."""
    powers = [quarter / 4 for quarter in range(-26, 17)]
    line = [steps_and_examples(min_steps, critical, critical * 2**power) for power in powers]
    xs, ys = [each["examples"] for each in line], [each["steps"] for each in line]
    pair.plot(xs, ys, color=colours.COMPUTED, label="hyperbola, fitted")
    middle = steps_and_examples(min_steps, critical, critical)
    style = {"color": colours.COMPUTED, "markersize": 9, "label": "critical batch size"}
    pair.plot([middle["examples"]], [middle["steps"]], "D", **style)
    pair.set_yscale("log")


def noise_over_loss(
    losses: Sequence[float], exact: Sequence[float], estimated: Sequence[float]
) -> Picture:
    """The noise scale at some moments of a run, exact and estimated, while the loss falls.

    Args:
        losses: At each moment.
        exact: From the gradients of all examples.
        estimated: From batches of two sizes.
    """
    figure, pair = axes()
    pair.plot(losses, exact, "o-", color=colours.MEASURED, label="exact")
    pair.plot(losses, estimated, "x", color=colours.COMPUTED, label="estimated", markersize=9)
    pair.set_yscale("log")
    pair.invert_xaxis()
    pair.set_xlabel("loss, falling from left to right")
    pair.set_ylabel("noise scale (log scale)")
    pair.legend(frameon=False)
    caption = (
        f"While the loss falls from {losses[0]:.2f} to {losses[-1]:.2f}, the noise scale grows "
        f"from {exact[0]:,.0f} to {exact[-1]:,.0f} examples; estimated {estimated[0]:,.0f} and "
        f"{estimated[-1]:,.0f}."
    )
    return Picture(figure, caption)


def noise_estimates(each: Sequence[float], of_means: float, exact: float) -> Picture:
    """How far single estimates of a noise scale scatter.

    Args:
        each: One estimate for each pair of batches; some may be infinite.
        of_means: The ratio of the mean estimates.
        exact: From the gradients of all examples.
    """
    finite = sorted(value for value in each if math.isfinite(value))
    limit = 4 * exact
    figure, pair = axes(height=2.4)
    inside = [min(max(value, 0), limit) for value in finite]
    pair.hist(inside, bins=32, range=(0, limit), color=colours.NEUTRAL)
    pair.patches[-1].set_color(colours.WRONG)
    pair.patches[-1].set_label(f"{limit * 31 / 32:,.0f} and more")
    pair.axvline(exact, color=colours.MEASURED, label="exact")
    pair.axvline(of_means, color=colours.COMPUTED, linestyle="--", label="ratio of means")
    less = " (below zero: first bar)" if finite[0] < 0 else ""
    pair.set_xlabel(f"estimated noise scale, from one pair of batches{less}")
    pair.set_ylabel("pairs")
    pair.legend(frameon=False)
    low, high = finite[len(finite) // 20], finite[-1 - len(finite) // 20]
    caption = (
        f"{len(each):,} estimates of a noise scale of {exact:,.0f}: nine of ten finite ones lie "
        f"between {low:,.0f} and {high:,.0f}, {len(each) - len(finite):,} are infinite. The ratio "
        f"of the means is {of_means:,.0f}."
    )
    return Picture(figure, caption)


def batch_schedule(schedule: Sequence[tuple[int, int]], total_tokens: int) -> Picture:
    """A batch that grows with the tokens seen, and the steps of each stage.

    Args:
        schedule: For each stage the tokens seen at its beginning, and its batch in tokens.
        total_tokens: Where the run ends.
    """
    starts = [start / 10**9 for start, _ in schedule] + [total_tokens / 10**9]
    sizes = [batch / 10**6 for _, batch in schedule]
    counts = [num_steps(schedule[: n + 1], end) for n, end in enumerate(_ends(schedule))]
    counts.append(num_steps(schedule, total_tokens))
    stages = [now - before for before, now in zip([0, *counts], counts, strict=False)]
    figure, pair = axes(width=7.0)
    pair.stairs(sizes, starts, baseline=None, color=colours.COMPUTED, linewidth=2)
    for start, end, size, count in zip(starts, starts[1:], sizes, stages, strict=False):
        middle = math.sqrt(start * end) or end / 2
        place = {"xytext": (0, 4), "textcoords": "offset points", "fontsize": 8, "ha": "center"}
        pair.annotate(f"{count:,} steps", (middle, size), **place)
    pair.set_xscale("symlog", linthresh=starts[1])
    pair.set_xlim(0, 1.3 * starts[-1])
    pair.set_yscale("log", base=2)
    pair.set_ylim(top=2 * sizes[-1])
    pair.set_xticks(starts, [f"{each:,.0f}" for each in starts])
    pair.set_yticks(sizes, [f"{each:g}" for each in sizes])
    pair.minorticks_off()
    pair.set_xlabel("tokens seen, in billions (log scale beyond the first stage)")
    pair.set_ylabel("batch, million tokens")
    told = "; ".join(
        f"{size:g} million from {start:,.0f} billion on for {count:,} steps"
        for start, size, count in zip(starts, sizes, stages, strict=False)
    )
    return Picture(figure, f"Batch in tokens: {told}; {counts[-1]:,} steps in all.")


def _ends(schedule: Sequence[tuple[int, int]]) -> list[int]:
    return [start for start, _ in schedule[1:]]


def batch_plan(
    model: str,
    *,
    global_batch_size: int,
    micro_batch_size: int,
    num_devices: int,
    critical_batch_tokens: int,
) -> Picture:
    """A global batch over devices and passes: its place on the hyperbola, and memory on a device.

    Sequences have 4,096 tokens; memory counts the training state in bf16 and what one micro-batch
    saves for backward, with the loss in fp32.

    Args:
        model: Name of a preset.
        global_batch_size: Sequences B of a step.
        micro_batch_size: Sequences b of a pass on one device.
        num_devices: Devices, each with all of the model.
        critical_batch_tokens: B_c in tokens, as far as it is known.
    """
    tokens = global_batch_size * SEQ_LEN
    place = steps_and_examples(1, critical_batch_tokens, tokens)
    steps, examples = place["steps"], place["examples"] / critical_batch_tokens
    run = RunConfig(seq_len=SEQ_LEN, micro_batch_size=micro_batch_size, is_loss_fp32=True)
    state = state_bytes(sum(parameters(preset(model)).values()), run.precision)
    saved_bytes = sum(model_saved_bytes(preset(model), run).values())
    total_bytes = sum(state.values()) + saved_bytes
    figure = Figure(figsize=(7.0, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 0.8))
    for pair in (left, right):
        pair.spines[["top", "right"]].set_visible(False)
    _draw_place(left, steps, examples, critical_batch_tokens)
    _draw_memory(right, state, saved_bytes)
    caption = (
        f"{global_batch_size:,} sequences of {SEQ_LEN:,} are {tokens:,} tokens a step: "
        f"{_accumulation_in_words(global_batch_size, micro_batch_size, num_devices)}. At a "
        f"critical batch size of {critical_batch_tokens:,} tokens that is {steps:,.3g} times the "
        f"fewest steps and {examples:,.3g} times the fewest tokens. {model}, {micro_batch_size:,} "
        f"at once: {total_bytes / GIB:,.1f} GiB on each device, of which saved for backward "
        f"{saved_bytes / GIB:,.1f}; that {_fits_in_words(total_bytes)}."
    )
    return Picture(figure, caption)


def _accumulation_in_words(global_batch_size: int, micro_batch_size: int, num_devices: int) -> str:
    each = "the device" if num_devices == 1 else f"each of {num_devices:,} devices"
    num_micro_batches, rest = divmod(global_batch_size, micro_batch_size * num_devices)
    if rest:
        return f"they cannot be shared out as whole micro-batches of {micro_batch_size:,} to {each}"
    return f"{each} accumulates {num_micro_batches:,} micro-batches of {micro_batch_size:,}"


def _fits_in_words(total_bytes: int) -> str:
    fits = total_bytes <= device(DEVICE).memory_bytes
    return f"{'fits' if fits else 'does not fit'} on an {DEVICE}"


def _draw_place(pair: Any, steps: float, examples: float, critical_batch_tokens: int) -> None:
    """The hyperbola in units of the fewest steps and tokens, and the dot of this batch."""
    powers = [quarter / 4 for quarter in range(-45, 30)]
    line = [steps_and_examples(1, 1, 2**power) for power in powers]
    xs, ys = [each["examples"] for each in line], [each["steps"] for each in line]
    pair.plot(xs, ys, color=colours.COMPUTED)
    pair.plot([examples], [steps], "o", color=colours.MEASURED)
    pair.set_xscale("log", base=2)
    pair.set_yscale("log", base=2)
    pair.set_xlim(0.8, 2**7)
    pair.set_ylim(0.8, 2**11.5)
    for axis in (pair.xaxis, pair.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    pair.set_xlabel("tokens over the fewest (log scale)")
    pair.set_ylabel("steps over the fewest (log scale)")
    million = critical_batch_tokens / 10**6
    pair.set_title(f"critical batch size {million:g} million tokens", fontsize=9)


def _draw_memory(pair: Any, state: Mapping[str, int], saved_bytes: int) -> None:
    """One bar: weights, gradients and optimizer states, and what is saved for backward."""
    parts = {
        "weights": (colours.PARAMETERS, state["weights"]),
        "gradients": (colours.GRADIENTS, state["gradients"]),
        "optimizer": (colours.OPTIMIZER_STATES, state["master_weights"] + state["moments"]),
        "saved for\nbackward": (colours.ACTIVATIONS, saved_bytes),
    }
    height = 0.0
    for name, (colour, part) in parts.items():
        pair.bar([0], [part / GIB], bottom=[height], color=colour, label=name)
        height += part / GIB
    limit = device(DEVICE).memory_bytes / GIB
    pair.axhline(limit, color=colours.MEASURED, linestyle="--", linewidth=1, label=DEVICE)
    is_too_much = height > limit
    told = "does not fit" if is_too_much else "fits"
    pair.set_title(told, fontsize=9, color=colours.WRONG if is_too_much else colours.RIGHT)
    pair.set_ylim(0, 1.15 * max(limit, height))
    pair.set_xticks([])
    pair.set_ylabel("GiB on a device")
    handles, labels = pair.get_legend_handles_labels()
    place = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False, "fontsize": 8}
    pair.legend(handles[::-1], labels[::-1], **place)
