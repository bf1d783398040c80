"""Serving a model: tokens per second by design, blocks of a cache, drafts that are accepted."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.patches import Rectangle

from course_utils import colours
from course_utils.configs import LatentAttention, ModelConfig, device, preset
from course_utils.formulas.serving import served_bytes, served_tokens_per_second, speculation
from course_utils.show.picture import Picture, axes, axes_beside, log_ticks

BATCHES = tuple(2**n for n in range(11))
AXIS_RATE = (50, 1e5)
LATENT = LatentAttention(
    kv_rank=512, q_rank=1536, nope_head_dim=128, rope_head_dim=64, value_head_dim=128
)
LINES = {
    "a key for every head": colours.ACTIVATIONS,
    "8 heads of keys (as it is)": colours.PARAMETERS,
    "one head of keys": colours.OPTIMIZER_STATES,
    "latents": colours.TEMPORARIES,
}
SEQUENCES = (
    colours.PARAMETERS,
    colours.GRADIENTS,
    colours.OPTIMIZER_STATES,
    colours.TEMPORARIES,
    colours.COMPUTED,
)
WORDS = ("read", "write", "wait", "ask", "end")
LARGE = (0.5, 0.2, 0.15, 0.1, 0.05)
GUESS = (0.05, 0.15, 0.1, 0.2, 0.5)  # of a draft that knows nothing of the large model


def designs_of_llama() -> dict[str, ModelConfig]:
    """Llama-3-8B, and what it would be with other keys and values; all else as it is."""
    llama = preset("Llama-3-8B")
    heads = {each: replace(llama, num_kv_heads=each) for each in (32, 8, 1)}
    return dict(zip(LINES, [*heads.values(), replace(llama, latent_attention=LATENT)], strict=True))


def rates_over_batch(context: int, hardware: str) -> Picture:
    """Tokens per second at best of four designs against the batch, up to where memory ends.

    Args:
        context: Cached tokens of each sequence.
        hardware: Name of a device.
    """
    chip = device(hardware)
    figure, ax = axes(height=4.0)
    ends = {}
    for (name, model), colour in zip(designs_of_llama().items(), LINES.values(), strict=True):
        fits = [n for n in BATCHES if served_bytes(model, n, context) <= chip.memory_bytes]
        rates = [served_tokens_per_second(model, chip, n, context) for n in BATCHES]
        ax.plot(BATCHES, rates, ":", color=colour, alpha=0.6)
        ax.plot(BATCHES[: len(fits)], rates[: len(fits)], "o-", color=colour, label=name)
        ends[name] = fits[-1] if fits else 0
    ax.set(yscale="log", ylim=AXIS_RATE)
    log_ticks(ax, BATCHES)
    ax.set_xlabel("sequences in the batch (log scale); dotted: no room for their cache")
    ax.set_ylabel("tokens per second (log scale)")
    ax.legend(frameon=False, loc="upper left")
    caption = (
        f"Llama-3-8B in four designs on one {hardware}, {context:,} cached tokens each: the "
        f"largest batch of those drawn that fits is {', '.join(f'{n:,}' for n in ends.values())}."
    )
    return Picture(figure, caption)


def paged_blocks(
    owners: Sequence[Mapping[str, int]], labels: Sequence[str], block_size: int
) -> Picture:
    """Blocks of a paged cache, coloured by the sequences that hold them, and filled cells.

    Args:
        owners: For each block the filled cells of each sequence that holds it, by its name.
        labels: Names of all sequences, in the order of their colours.
        block_size: Cells in a block.
    """
    figure, ax = axes(height=2.6)
    colour_of = dict(zip(labels, SEQUENCES, strict=False))
    for block, cells in enumerate(owners):
        _draw_block(ax, block, cells, block_size, colour_of)
    ax.set(xlim=(-0.1, len(owners)), ylim=(-0.2, 1.75))
    ax.set_axis_off()
    for number, (name, colour) in enumerate(colour_of.items()):
        at = number * len(owners) / 8
        ax.add_patch(Rectangle((at, 1.35), len(owners) / 60, 0.2, facecolor=colour))
        ax.text(at + len(owners) / 45, 1.45, name, va="center")
    shared = sum(len(cells) > 1 for cells in owners)
    used = sum(bool(cells) for cells in owners)
    caption = f"{used} of {len(owners)} blocks are in use, {shared} of them by several sequences."
    return Picture(figure, caption)


def _draw_block(
    ax: Any, block: int, cells: Mapping[str, int], block_size: int, colour_of: Mapping[str, str]
) -> None:
    """A block as a column of cells, split among the sequences that share it."""
    width, height = 0.8 / max(1, len(cells)), 1 / block_size
    for number, (name, filled) in enumerate(cells.items()):
        for cell in range(filled):
            at = (block + number * width, 1 - (cell + 1) * height)
            ax.add_patch(Rectangle(at, width, height, facecolor=colour_of[name]))
    for cell in range(block_size):
        frame: Any = {"facecolor": "none", "edgecolor": colours.NEUTRAL, "linewidth": 0.8}
        ax.add_patch(Rectangle((block, cell * height), 0.8, height, **frame))
    ax.text(block + 0.4, -0.15, f"{block}", ha="center", va="center")


def draft_overlap(likeness: str, draft_length: int) -> Picture:
    """Chances of a large and of a draft model, the overlap that is accepted, and how far it goes.

    Args:
        likeness: How much of the large model the draft knows, such as ``"80 %"``.
        draft_length: Tokens that are drafted.
    """
    known = float(likeness.rstrip(" %")) / 100
    q = [known * p + (1 - known) * g for p, g in zip(LARGE, GUESS, strict=True)]
    overlap = [min(pair) for pair in zip(LARGE, q, strict=True)]
    figure, (left, right) = axes_beside(3.2, (3, 2))
    _draw_overlap(left, q, overlap)
    acceptance = math.fsum(overlap)
    _draw_accepted(right, acceptance, draft_length)
    tokens = speculation(acceptance, 0.0, draft_length)["tokens"]
    caption = (
        f"The bars overlap in {acceptance:.2f}, the chance that a drafted token is accepted: "
        f"with {draft_length} drafted, one pass of the large model gives {tokens:.2f} tokens."
    )
    return Picture(figure, caption)


def _draw_overlap(ax: Any, q: Sequence[float], overlap: Sequence[float]) -> None:
    """Bars of both models, and on them what is accepted."""
    places = range(len(WORDS))
    ax.bar([n - 0.2 for n in places], LARGE, 0.38, color=colours.PARAMETERS, label="large model, p")
    ax.bar([n + 0.2 for n in places], q, 0.38, color=colours.GRADIENTS, label="draft, q")
    accepted = {"facecolor": "none", "edgecolor": colours.MEASURED, "hatch": "///"}
    ax.bar(places, overlap, 0.78, **accepted, label="accepted: the smaller")
    for n, each in enumerate(overlap):
        top = max(LARGE[n], q[n])
        ax.text(n, top + 0.01, f"{each:.2f}", ha="center", va="bottom", fontweight="bold")
    ax.set_xticks(list(places), WORDS)
    ax.set(ylim=(0, 0.6), ylabel="chance")
    ax.legend(frameon=False, loc="upper center")


def _draw_accepted(ax: Any, acceptance: float, draft_length: int) -> None:
    """The chance that each drafted token stays, with all before it."""
    drafts = range(1, draft_length + 1)
    chances = [acceptance**n for n in drafts]
    ax.bar(drafts, chances, 0.7, color=colours.COMPUTED)
    for n, each in zip(drafts, chances, strict=True):
        ax.text(n, each + 0.01, f"{each:.2f}", ha="center", va="bottom", fontweight="bold")
    ax.set(xlim=(0.4, 8.6), xticks=list(drafts), ylim=(0, 1.1))
    ax.set(xlabel="drafted token", ylabel="chance that it and all before stay")
