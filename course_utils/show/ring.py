"""The steps of a ring all-reduce, drawn."""

from typing import Any

from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from course_utils import colours
from course_utils.show.picture import WIDTH, Picture, axes_beside

MAX_RANKS = 6

State = list[list[set[int]]]
"""For each rank and part: the ranks whose numbers are summed in it."""


def ring_states(num_ranks: int) -> tuple[list[State], list[list[int]]]:
    """What each rank holds before and after every step of a ring all-reduce, and what it sends.

    Args:
        num_ranks: Ranks on the ring, and parts of a tensor.

    Returns:
        The states, one more than there are steps; and for each step the part that each rank sends.
    """
    ranks = range(num_ranks)
    states: list[State] = [[[{rank} for _ in ranks] for rank in ranks]]
    sent: list[list[int]] = []
    for step in range(2 * (num_ranks - 1)):
        parts = [(rank - step) % num_ranks for rank in ranks]
        before = states[-1]
        after = [[set(part) for part in rank] for rank in before]
        for rank, part in zip(ranks, parts, strict=True):
            after[(rank + 1) % num_ranks][part] |= before[rank][part]
        states.append(after)
        sent.append(parts)
    return states, sent


def ring_steps(num_ranks: int) -> Picture:
    """Every step of a ring all-reduce: how complete each part is on each rank, and what is sent.

    Args:
        num_ranks: 2 to 6 ranks.

    Raises:
        ValueError: If ``num_ranks`` is out of range.
    """
    if not 2 <= num_ranks <= MAX_RANKS:
        raise ValueError(f"ring_steps: draws 2 to {MAX_RANKS} ranks, got {num_ranks}")
    states, sent = ring_states(num_ranks)
    figure, all_axes = axes_beside(0.9 + min(2, WIDTH / len(states)), [1] * len(states))
    for step, (ax, state) in enumerate(zip(all_axes, states, strict=True)):
        _draw_state(ax, state, sent[step] if step < len(sent) else None)
        ax.set_title(_title(step, num_ranks), fontsize=9)
        ax.set_xticks(range(num_ranks))
        ax.set_xlabel("part", fontsize=8)
        ax.tick_params(length=0, labelsize=8)
    all_axes[0].set_yticks(
        [-rank for rank in range(num_ranks)], [f"rank {rank}" for rank in range(num_ranks)]
    )
    return Picture(
        figure,
        "The number in a part counts the ranks that are summed in it; framed parts are the next "
        "that go to the rank below, those of the last rank to the first.",
    )


def _title(step: int, num_ranks: int) -> str:
    """The step, and whether the part that arrived was added or replaced the old one."""
    if step == 0:
        return "at first\n"
    return f"after turn {step}\n{'added' if step < num_ranks else 'replaced'}"


def _draw_state(ax: Any, state: State, sent: list[int] | None) -> None:
    """Draw a row for each rank, and in it a square for each part."""
    size = len(state)
    for rank, parts in enumerate(state):
        for place, ranks in enumerate(parts):
            is_sent = sent is not None and sent[rank] == place
            square = Rectangle((place - 0.44, -rank - 0.44), 0.88, 0.88)
            square.set_facecolor((*to_rgb(colours.COMPUTE), len(ranks) / size * 0.5))
            if is_sent:
                square.set(edgecolor=colours.COMMUNICATION, linewidth=3, zorder=2)
            ax.add_patch(square)
            if is_sent:
                arrow = {"arrowstyle": "-|>", "color": colours.COMMUNICATION, "linewidth": 1.5}
                ends = {"xy": (place + 0.3, -rank - 0.86), "xytext": (place + 0.3, -rank - 0.3)}
                ax.annotate("", **ends, arrowprops=arrow, zorder=3, annotation_clip=False)
            ax.text(place, -rank, str(len(ranks)), ha="center", va="center", fontsize=9)
    ax.set(xlim=(-0.6, size - 0.4), ylim=(-size, 0.6), aspect="equal", yticks=[])
    ax.spines[:].set_visible(False)
