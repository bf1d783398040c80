"""How long does a step on several devices take, and how much of its communication is exposed?"""

from collections.abc import Mapping
from typing import Any

from course_utils import colours
from course_utils.distributed import ClusterRun
from course_utils.quantities import format_bytes
from course_utils.show.picture import Picture, axes, log_ticks

STYLES = (
    ("o", "-", colours.MEASURED),
    ("s", "-", colours.COMPUTED),
    ("D", "-", colours.NEUTRAL),
    ("x", "--", colours.NEUTRAL),
)
CLIPPED = 1.25  # times the shortest step: the end of the axis, where longer steps are labelled


def step_over_bucket_bytes(
    seconds: Mapping[str, Mapping[int, float]], compute_seconds: float
) -> Picture:
    """How long a step takes for several bucket sizes, compared with computation alone.

    The axis starts at the time of computation, so small differences are visible; longer steps are
    clipped.

    Args:
        seconds: For each of up to three settings, the seconds of a step by bucket size in bytes.
        compute_seconds: Seconds of a step without communication.
    """
    figure, ax = axes()
    described = []
    highest = CLIPPED * 1e3 * min(each for of_size in seconds.values() for each in of_size.values())
    for style, (name, of_size) in zip(("o-", "s--", "D:"), seconds.items(), strict=False):
        sizes = sorted(of_size)
        milliseconds = {size: 1e3 * of_size[size] for size in sizes}
        line = {"color": colours.COMMUNICATION, "label": name}
        ax.plot(sizes, list(milliseconds.values()), style, **line)
        _label_clipped(ax, milliseconds, highest)
        best = min(milliseconds, key=milliseconds.__getitem__)
        described.append(f"{format_bytes(best, digits=0)} ({name}, {milliseconds[best]:.2f} ms)")
    below = {"color": colours.COMPUTE, "linestyle": "--", "label": "computation alone"}
    ax.axhline(1e3 * compute_seconds, **below)
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, [format_bytes(size, digits=0) for size in sizes])
    ax.set_ylim(0.99e3 * compute_seconds, highest)
    ax.set(xlabel="bucket_bytes (log scale)", ylabel="virtual ms of a step (not from 0)")
    ax.legend(frameon=False, loc="upper center")
    alone = f"computation alone takes {1e3 * compute_seconds:.2f} ms"
    return Picture(figure, f"The step is shortest with buckets of {', '.join(described)}; {alone}.")


def _label_clipped(ax: Any, milliseconds: Mapping[int, float], highest: float) -> None:
    """Write values beyond the end of the axis at its edge."""
    for size, value in milliseconds.items():
        if value > highest:
            ax.annotate(f"↑ {value:.2f}", (size, highest), ha="center", va="top")


def exposed_over_tokens(runs: Mapping[int, ClusterRun], threshold: int) -> Picture:
    """The share of a step that is exposed communication, over the tokens of a rank.

    Args:
        runs: Runs, by tokens on each rank.
        threshold: Tokens from which on communication can be hidden.
    """
    tokens = sorted(runs)
    shares = [100 * runs[each].exposed_seconds() / runs[each].step_seconds for each in tokens]
    figure, ax = axes()
    ax.plot(tokens, shares, "o-", color=colours.COMMUNICATION, label="simulated")
    line = {"color": colours.COMPUTED, "linestyle": "--", "label": f"computed: {threshold:,}"}
    ax.axvline(threshold, **line)
    log_ticks(ax, tokens)
    ax.set_ylim(bottom=0)
    ax.set(xlabel="tokens on each rank (log scale)", ylabel="exposed, % of the step")
    ax.legend(frameon=False)
    caption = (
        f"The exposed part of the step falls from {shares[0]:.0f} % at {tokens[0]:,} tokens to "
        f"{shares[-1]:.0f} % at {tokens[-1]:,}; the computed threshold is {threshold:,}."
    )
    return Picture(figure, caption)


def tokens_per_second_over_devices(rates: Mapping[str, Mapping[int, float]]) -> Picture:
    """The throughput that a device keeps as the number of devices grows, for several settings.

    Args:
        rates: For each of up to four settings, the tokens per second of a device by the number of
            devices; the rate on the fewest devices is 100 %.
    """
    figure, ax = axes()
    described = []
    for (marker, line, colour), (name, rate) in zip(STYLES, rates.items(), strict=False):
        counts = sorted(rate)
        kept = [100 * rate[count] / rate[counts[0]] for count in counts]
        ax.plot(counts, kept, f"{marker}{line}", color=colour, label=name)
        described.append(f"{kept[-1]:.0f} % ({name})")
    log_ticks(ax, counts)
    ax.set_ylim(bottom=0)
    ax.set(xlabel="devices (log scale)", ylabel="tokens/s of each, % of the first")
    ax.legend(frameon=False)
    what = f"What a device on {counts[-1]:,} keeps of its rate on {counts[0]:,}"
    return Picture(figure, f"{what}: {'; '.join(described)}.")
