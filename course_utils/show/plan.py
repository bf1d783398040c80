"""How far are predictions off, what do more devices cost, and what do plans take?"""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from course_utils import colours
from course_utils.configs import Plan
from course_utils.planner import PlanCosts
from course_utils.records import FoundryRun
from course_utils.show.picture import Picture, axes, axes_beside

GB = 10**9
GOAL_PERCENT, LIMIT_PERCENT = 5, 10
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SECONDS = {
    "work": colours.COMPUTE,
    "messages": colours.COMMUNICATION,
    "launches": colours.TEMPORARIES,
    "bubble": colours.IDLE,
    "replicas": colours.COMPUTED,
    "update": colours.OPTIMIZER_STATES,
}
BYTES = {
    "state": colours.OPTIMIZER_STATES,
    "gathered": colours.PARAMETERS,
    "layers": colours.ACTIVATIONS,
    "loss": colours.HEAD,
    "added": colours.TEMPORARIES,
}


def errors_by_size(errors: Mapping[FoundryRun, float]) -> Picture:
    """Errors of throughput by size of the model, and how many of them are within the goals.

    Args:
        errors: Of each row, predicted over measured, less one.
    """
    percents = {run: 100 * each for run, each in errors.items()}
    names = list(dict.fromkeys(run.model for run in errors))[::-1]
    figure, ax = axes(height=3.0)
    for limit, shade in ((LIMIT_PERCENT, 0.12), (GOAL_PERCENT, 0.2)):
        ax.axhspan(-limit, limit, color=colours.COMPUTED, alpha=shade, linewidth=0)
    for place, name in enumerate(names):
        own = [each for run, each in percents.items() if run.model == name]
        offsets = [place + 0.5 * (n / max(1, len(own) - 1) - 0.5) for n in range(len(own))]
        ax.plot(offsets, own, "o", color=colours.MEASURED, markersize=4)
    ax.axhline(0, color=colours.NEUTRAL, linewidth=0.8)
    ax.set_xticks(range(len(names)), names)
    ax.set_ylabel("too fast by, %")
    sizes = [abs(each) for each in percents.values()]
    outside = sum(each > LIMIT_PERCENT for each in sizes)
    worst = max(percents, key=lambda run: abs(percents[run]))
    return Picture(
        figure,
        f"{len(sizes)} rows, each predicted without its own model size: median error "
        f"{median(sizes):.1f} %, {outside} beyond {LIMIT_PERCENT} %, the worst {worst.name} with "
        f"{percents[worst]:+.0f} %.",
    )


def rates_over_devices(runs: Sequence[FoundryRun]) -> Picture:
    """Tokens per second of each device over the number of devices, by size of the model.

    Args:
        runs: Rows of one device and one length.
    """
    names = [name for name in dict.fromkeys(run.model for run in runs)][::-1]
    figure, ax = axes(height=3.0)
    shares = {}
    for name, colour in zip(names, LINES, strict=False):
        own = sorted((run for run in runs if run.model == name), key=lambda run: run.num_devices)
        best = max(run.tokens_per_second_per_device for run in own)
        rates = [100 * run.tokens_per_second_per_device / best for run in own]
        ax.plot([run.num_devices for run in own], rates, "o-", color=colour, label=name)
        shares[name] = rates[-1]
    ticks = sorted({run.num_devices for run in runs})
    ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, ticks)
    ax.minorticks_off()
    ax.set_ylim(60, 103)
    ax.set_xlabel("devices")
    ax.set_ylabel("rate of a device, % of its best")
    ax.legend(frameon=False, ncol=2, loc="lower left")
    lowest = min(shares, key=lambda name: shares[name])
    return Picture(
        figure,
        f"On {ticks[-1]} devices each one does {min(shares.values()):.0f} to "
        f"{max(shares.values()):.0f} % of what it does at best; {lowest} loses most.",
    )


def plans_side_by_side(task: PlanCosts, plans: Mapping[str, Plan]) -> Picture:
    """Seconds of a step and bytes of the fullest device, by part, for some plans.

    Args:
        task: What is trained on what.
        plans: By name.
    """
    seconds = {name: task.seconds_by_part(each) for name, each in plans.items()}
    taken = {name: task.bytes_by_part(each) for name, each in plans.items()}
    figure, (left, right) = axes_beside(0.9 + 0.42 * len(plans), (1, 1), sharey=True)
    _stack(left, seconds, SECONDS, 1, "a step, s")
    _stack(right, taken, BYTES, GB, "GB on the fullest device")
    right.axvline(task.machine.memory_bytes / GB, color=colours.NEUTRAL, linestyle="--")
    left.set_yticks(range(len(plans)), list(plans))
    left.invert_yaxis()
    fitting = [n for n in plans if sum(taken[n].values()) <= task.machine.memory_bytes]
    if not fitting:
        return Picture(figure, f"None of these {len(plans)} plans fits.")
    best = min(fitting, key=lambda name: math.fsum(seconds[name].values()))
    return Picture(
        figure,
        f"{len(fitting)} of {len(plans)} fit; the fastest of them is “{best}” with "
        f"{math.fsum(seconds[best].values()):.2f} s and {sum(taken[best].values()) / GB:.1f} GB.",
    )


def _stack(
    ax: Any,
    parts: Mapping[str, Mapping[str, float]],
    shades: Mapping[str, str],
    unit: float,
    label: str,
) -> None:
    for row, each in enumerate(parts.values()):
        start = 0.0
        for part, width in ((name, each[name] / unit) for name in shades):
            name = None if row else part
            ax.barh(row, width, 0.66, left=start, color=shades[part], label=name)
            start += width
    ax.set_xlabel(label)
    ax.legend(frameon=False, ncol=3, loc="lower left", bbox_to_anchor=(0, 1))
