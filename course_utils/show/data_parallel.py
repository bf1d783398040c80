"""How long does a step of several devices take, and how much of it do they wait for each other?"""

from collections.abc import Mapping

from course_utils import colours
from course_utils.distributed import ClusterRun
from course_utils.show.memory import bytes_as_read
from course_utils.show.picture import Picture, axes

STYLES = (
    ("o", "-", colours.MEASURED),
    ("s", "-", colours.COMPUTED),
    ("D", "-", colours.NEUTRAL),
    ("x", "--", colours.NEUTRAL),
)
ALGORITHMS = (STYLES[0], STYLES[2])
CLIPPED = 1.25  # times the shortest step; what is longer is written at the edge


def step_over_bucket_bytes(
    seconds: Mapping[str, Mapping[int, float]], compute_seconds: float
) -> Picture:
    """How long a step takes with buckets of several sizes, above the time of its computation.

    The axis begins at that time, so that small differences are seen, and longer steps are clipped.

    Args:
        seconds: Of a step, by the size of a bucket in bytes; for each of up to three settings.
        compute_seconds: Of a step without communication.
    """
    figure, pair = axes()
    told = []
    highest = CLIPPED * 1e3 * min(each for of_size in seconds.values() for each in of_size.values())
    for style, (name, of_size) in zip(("o-", "s--", "D:"), seconds.items(), strict=False):
        sizes = sorted(of_size)
        best = min(sizes, key=of_size.__getitem__)
        as_line = {"color": colours.COMMUNICATION, "label": name}
        pair.plot(sizes, [1e3 * of_size[size] for size in sizes], style, **as_line)
        for size in sizes:
            if 1e3 * of_size[size] > highest:
                label = {"ha": "center", "va": "top"}
                pair.annotate(f"↑ {1e3 * of_size[size]:.2f}", (size, highest), **label)
        each = (f"{1e3 * of_size[n]:.2f} ms at {bytes_as_read(n, digits=0)}" for n in sizes)
        told.append(f"{name}: {', '.join(each)}; shortest at {bytes_as_read(best, digits=0)}")
    below = {"color": colours.COMPUTE, "linestyle": "--", "label": "computation alone"}
    pair.axhline(1e3 * compute_seconds, **below)
    pair.set_xscale("log", base=2)
    pair.set_xticks(sizes, [bytes_as_read(size, digits=0) for size in sizes])
    pair.set_xlabel("bucket_bytes (log scale)")
    pair.set_ylim(0.99e3 * compute_seconds, highest)
    pair.set_ylabel("virtual ms of a step (not from 0)")
    pair.legend(frameon=False, loc="upper center")
    caption = (
        f"How long a step takes with buckets of several sizes, on an axis that begins at the time "
        f"of computation. {'. '.join(told)}. "
        f"Computation alone takes {1e3 * compute_seconds:.2f} ms."
    )
    return Picture(figure, caption)


def exposed_over_tokens(runs: Mapping[int, ClusterRun], threshold: int) -> Picture:
    """Which part of a step is exposed communication, over the tokens of a rank.

    Args:
        runs: By tokens on each rank.
        threshold: Tokens from which on communication could be hidden.
    """
    tokens = sorted(runs)
    shares = [100 * runs[each].exposed_seconds() / runs[each].step_seconds for each in tokens]
    figure, pair = axes()
    pair.plot(tokens, shares, "o-", color=colours.COMMUNICATION, label="measured")
    line = {"color": colours.COMPUTED, "linestyle": "--", "label": f"computed: {threshold:,}"}
    pair.axvline(threshold, **line)
    pair.set_xscale("log", base=2)
    pair.set_xticks(tokens, [f"{each:,}" for each in tokens])
    pair.set_ylim(bottom=0)
    pair.set_xlabel("tokens on each rank (log scale)")
    pair.set_ylabel("exposed, % of the step")
    pair.legend(frameon=False)
    told = (f"{share:.0f} % at {each:,}" for each, share in zip(tokens, shares, strict=True))
    caption = (
        f"Of the step the rank waits for its links {', '.join(told)} tokens. The computed "
        f"threshold is {threshold:,} tokens."
    )
    return Picture(figure, caption)


def tokens_per_second_over_devices(rates: Mapping[str, Mapping[int, float]]) -> Picture:
    """How much of its rate a device keeps as others join, for several settings.

    Args:
        rates: For each of up to four settings the tokens per second of a device, by the number of
            devices; the smallest number stands for all of its rate.
    """
    figure, pair = axes()
    told = []
    for (marker, line, colour), (name, rate) in zip(STYLES, rates.items(), strict=False):
        counts = sorted(rate)
        kept = [100 * rate[count] / rate[counts[0]] for count in counts]
        pair.plot(counts, kept, f"{marker}{line}", color=colour, label=name)
        told.append(f"{name}: {kept[-1]:.0f} % on {counts[-1]:,}")
    pair.set_xscale("log", base=2)
    pair.set_xticks(counts, [f"{count:,}" for count in counts])
    pair.set_ylim(bottom=0)
    pair.set_xlabel("devices (log scale)")
    pair.set_ylabel("tokens/s of each, % of the first")
    pair.legend(frameon=False)
    return Picture(
        figure, f"What a device keeps of its rate on {counts[0]:,} devices. {'; '.join(told)}."
    )


def all_reduce_over_ranks(
    measured: Mapping[str, Mapping[int, float]], computed: Mapping[int, float]
) -> Picture:
    """How long algorithms take for the same sum, and what a formula says of one of them.

    Args:
        measured: Seconds by the number of ranks, for each of one or two algorithms.
        computed: What the formula says.
    """
    figure, pair = axes()
    told = []
    for (marker, _, colour), (name, seconds) in zip(ALGORITHMS, measured.items(), strict=False):
        ranks = sorted(seconds)
        values = [1e3 * seconds[each] for each in ranks]
        pair.plot(ranks, values, marker, color=colour, label=name, clip_on=False)
        told.append(
            f"{name}: {values[0]:.2f} ms on {ranks[0]} ranks, {values[-1]:.2f} on {ranks[-1]}"
        )
    as_line = {"color": colours.COMPUTED, "label": "ring, computed", "zorder": 0}
    pair.plot(sorted(computed), [1e3 * computed[each] for each in sorted(computed)], **as_line)
    pair.set_xlim(left=0)
    pair.set_ylim(bottom=0)
    pair.set_xticks(sorted(computed))
    pair.set_xlabel("ranks")
    pair.set_ylabel("virtual ms")
    pair.legend(frameon=False)
    return Picture(figure, f"The same sum in several ways. {'; '.join(told)}.")
