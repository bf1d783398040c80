"""Where do the FLOPs of a transformer go?"""

from collections.abc import Mapping, Sequence

from matplotlib.ticker import PercentFormatter

from course_utils import colours
from course_utils.configs import preset
from course_utils.formulas.flops import forward_flops
from course_utils.show.picture import AT_TOP, Picture, axes, legend_above, log_ticks, note, text_on

# Narrower bars are too narrow for a number.
LABELLED_SHARE = 0.05

LABELS = {
    "projections": "projections",
    "attention": "attention core",
    "feed_forward": "feed-forward",
    "router": "router",
    "head": "output head",
}
COLOURS = {
    "projections": colours.PROJECTIONS,
    "attention": colours.ATTENTION_CORE,
    "feed_forward": colours.FEED_FORWARD,
    "router": colours.ROUTER,
    "head": colours.HEAD,
}


def flop_shares(model: str, seq_len: int) -> Picture:
    """Shares of a published model's forward FLOPs, and training FLOPs per token.

    Args:
        model: Name of a preset.
        seq_len: Tokens per sequence.
    """
    parts = forward_flops(preset(model), num_sequences=1, seq_len=seq_len)
    total = sum(parts.values())
    figure, ax = axes(height=1.8)
    left = 0.0
    for name, part in parts.items():
        if part:
            share = part / total
            bars = ax.barh([0], [share], left=left, color=COLOURS[name], label=LABELS[name])
            if share >= LABELLED_SHARE:
                text_colour = text_on(COLOURS[name])
                ax.bar_label(bars, [f"{share:.0%}"], label_type="center", color=text_colour)
            left += share
    ax.set(xlim=(0, 1), yticks=[])
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    ax.set_xlabel(f"share of {3 * total / seq_len / 1e9:,.1f} GFLOPs per token in training")
    legend_above(ax, 5)
    caption = (
        f"{model} at {seq_len:,} tokens: the attention core takes {parts['attention'] / total:.1%} "
        f"of the FLOPs and the output head {parts['head'] / total:.1%}."
    )
    return Picture(figure, caption)


def shares_over_length(
    lengths: Sequence[int], parts: Mapping[str, Sequence[int]], crossover: int
) -> Picture:
    """Shares of a layer's FLOPs over the sequence length, with the crossover marked.

    Args:
        lengths: Tokens per sequence.
        parts: FLOPs of each part for every length; the parts are keys of `LABELS`.
        crossover: The first length at which the attention core has half of the FLOPs or more.
    """
    totals = [sum(values) for values in zip(*parts.values(), strict=True)]
    shares = [
        [value / total for value, total in zip(values, totals, strict=True)]
        for values in parts.values()
    ]
    figure, ax = axes()
    labels = [LABELS[name] for name in parts]
    ax.stackplot(lengths, shares, labels=labels, colors=[COLOURS[name] for name in parts])
    ax.axvline(crossover, color="white", linestyle="--")
    look = {"xycoords": AT_TOP, "color": "white", "ha": "right", "va": "top"}
    note(ax, f"core is half at {crossover:,}", (crossover, 1), (-6, -6), **look)
    log_ticks(ax, lengths)
    ax.set(xlim=(lengths[0], lengths[-1]), ylim=(0, 1))
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.set(xlabel="tokens in a sequence (log scale)", ylabel="share of a layer's FLOPs")
    legend_above(ax, 3)
    caption = (
        f"From {crossover:,} tokens on, the attention core takes half of a layer's FLOPs or more."
    )
    return Picture(figure, caption)
