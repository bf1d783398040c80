"""How do the parts of a tensor travel around a ring of ranks until each rank has the sum?"""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_utils import colours
from course_utils.show.picture import Picture

MAX_RANKS = 6

State = list[list[set[int]]]
"""For each rank and part the ranks whose numbers are in it."""


def ring_states(num_ranks: int) -> tuple[list[State], list[list[int]]]:
    """What each rank holds before and after every step of a ring all-reduce, and what it sends.

    Args:
        num_ranks: On the ring; a tensor has as many parts.

    Returns:
        The states, one more than steps; for each step the part that each rank sends.
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
        num_ranks: From 2 to 6.

    Raises:
        ValueError: If there are fewer or more.
    """
    if not 2 <= num_ranks <= MAX_RANKS:
        raise ValueError(f"ring_steps: draws 2 to {MAX_RANKS} ranks, got {num_ranks}")
    states, sent = ring_states(num_ranks)
    figure = Figure(figsize=(1.5 * len(states), 2.2), layout="constrained")
    all_axes = figure.subplots(1, len(states))
    for step, (axes, state) in enumerate(zip(all_axes, states, strict=True)):
        _draw(axes, state, sent[step] if step < len(sent) else None)
        axes.set_title(_title(step, num_ranks), fontsize=9)
    for axes in all_axes:
        axes.set_xticks(range(num_ranks), [f"part {part}" for part in range(num_ranks)])
        axes.tick_params(axis="x", length=0, labelsize=7)
    all_axes[0].set_yticks(
        [-rank for rank in range(num_ranks)], [f"rank {rank}" for rank in range(num_ranks)]
    )
    return Picture(
        figure,
        f"A row is one of {num_ranks} ranks, a column a part of the tensor. The number in a part "
        f"counts the ranks whose numbers are summed in it. Framed parts are sent next, each to the "
        f"rank below, from the last rank to the first. In the first {num_ranks - 1} turns what "
        f"arrives is added to the part that is there; then each rank holds one part that is "
        f"complete. In the other {num_ranks - 1} it replaces the part, and then each rank holds "
        f"all.",
    )


def _title(turn: int, num_ranks: int) -> str:
    """When it is, and what was made of what arrived."""
    if turn == 0:
        return "at first\n"
    return f"after turn {turn}\n{'added' if turn < num_ranks else 'replaced'}"


def _draw(axes: Any, state: State, sent: list[int] | None) -> None:
    """A row for each rank, a square for each part."""
    size = len(state)
    for rank, parts in enumerate(state):
        for place, ranks in enumerate(parts):
            is_sent = sent is not None and sent[rank] == place
            square = Rectangle((place - 0.44, -rank - 0.44), 0.88, 0.88)
            square.set_facecolor((*_rgb(colours.COMPUTE), len(ranks) / size * 0.5))
            if is_sent:
                square.set(edgecolor=colours.COMMUNICATION, linewidth=3, zorder=2)
            axes.add_patch(square)
            if is_sent:
                way = {"arrowstyle": "-|>", "color": colours.COMMUNICATION, "linewidth": 1.5}
                ends = {"xy": (place + 0.3, -rank - 0.86), "xytext": (place + 0.3, -rank - 0.3)}
                axes.annotate("", **ends, arrowprops=way, zorder=3, annotation_clip=False)
            axes.text(place, -rank, str(len(ranks)), ha="center", va="center", fontsize=9)
    axes.set_xlim(-0.6, size - 0.4)
    axes.set_ylim(-size, 0.6)
    axes.set_aspect("equal")
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue
