"""Tokens per second of each conversation, from measured rates, beside how many fit."""

from course_utils import colours
from course_utils.configs import BF16_BYTES, device, preset
from course_utils.formulas.serving import cache_bytes, served_bytes, weights_read
from course_utils.formulas.serving_rates import serve
from course_utils.records.decode_rates import attention_rows, product_seconds
from course_utils.show.picture import Picture, axes, log_ticks

KEY_HEADS = 8  # of Llama-3-8B
CONTEXTS = {
    1024: colours.PARAMETERS,
    4096: colours.OPTIMIZER_STATES,
    8192: colours.GRADIENTS,
    32768: colours.ACTIVATIONS,
}
COUNTS = (1, 4, 16, 64, 256)
FASTEST = 320  # tokens per second, the end of the axis on every device


def speed_of_each(hardware: str, slowest: int) -> Picture:
    """Tokens per second of each conversation with Llama-3-8B over how many there are.

    Args:
        hardware: ``"A100-80"``, ``"H100-SXM"`` or ``"B200"``.
        slowest: Tokens per second that each should have at least.
    """
    llama, chip = preset("Llama-3-8B"), device(hardware)
    weights = BF16_BYTES * weights_read(llama, 1)
    figure, ax = axes(height=3.6)
    enough = []
    for context, colour in CONTEXTS.items():
        rows = attention_rows(hardware, KEY_HEADS, context)
        left = chip.memory_bytes - served_bytes(llama, 1, 1)
        room = left // cache_bytes(llama, 1, context, BF16_BYTES)
        counts = [int(count) for count, _ in rows]
        speeds = []
        for count, seconds in rows:
            others = product_seconds(hardware, weights, count)
            speeds.append(1 / (others + llama.num_layers * seconds))
        fits = sum(count <= room for count in counts)
        ax.plot(counts, speeds, "o:", color=colour, alpha=0.6, markerfacecolor="none")
        ax.plot(counts[:fits], speeds[:fits], "o-", color=colour, label=f"{context:,} tokens")
        others = product_seconds(hardware, weights, counts[-1])
        served = serve(rows, llama.num_layers, others, room, slowest)
        more = " or more" if counts[-1] == served["most"] < room else ""  # not measured further
        enough.append(f"{served['most']:,}{more} of {room:,} ({context:,} tokens)")
    ax.axhline(slowest, color=colours.NEUTRAL, linewidth=1)
    ax.set_ylim(0, FASTEST)
    log_ticks(ax, COUNTS)
    ax.set_xlabel("conversations (log scale); hollow: no room for their cache")
    ax.set_ylabel("tokens per second of each")
    ax.legend(frameon=False, title="cached by each")
    caption = (
        f"Llama-3-8B on one {hardware}, from measured rates. At {slowest} tokens per second for "
        f"each, of those that fit: {', '.join(enough)}."
    )
    return Picture(figure, caption)
