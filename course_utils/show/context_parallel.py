"""A causal sequence on several ranks: the squares of scores that each of them computes."""

from typing import Any

from matplotlib.patches import Rectangle

from course_utils import colours
from course_utils.reference.context_parallel import zigzag_positions
from course_utils.show.picture import Picture, axes

SIDE_BY_SIDE = "side by side"
LAYOUTS = (SIDE_BY_SIDE, "zigzag")
SHADES = (0.35, 1.0)


def pieces_of(layout: str, num_ranks: int) -> list[list[int]]:
    """The numbers of each rank's two pieces, of 2 c in all.

    Raises:
        ValueError: If the layout is another one.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"shared_triangle: wants one of {', '.join(LAYOUTS)}, got {layout!r}")
    if layout == SIDE_BY_SIDE:
        return [[2 * rank, 2 * rank + 1] for rank in range(num_ranks)]
    whole = (zigzag_positions(rank, num_ranks, 2 * num_ranks) for rank in range(num_ranks))
    return [[piece[0] for piece in pieces] for pieces in whole]


def shared_triangle(layout: str, num_ranks: int) -> Picture:
    """Squares of scores under the diagonal, in the shade of the rank that computes them.

    Args:
        layout: "side by side" or "zigzag".
        num_ranks: Ranks that share the sequence.
    """
    pieces = pieces_of(layout, num_ranks)
    work = [sum(piece + 1 for piece in each) for each in pieces]
    figure, ax = axes(height=3.4)
    for rank, each in enumerate(pieces):
        share = rank / max(1, num_ranks - 1)
        alpha = SHADES[0] + (SHADES[1] - SHADES[0]) * share
        for row in each:
            _draw_row(ax, row, f"rank {rank}", alpha, 2 * num_ranks)
    side = 2 * num_ranks
    ax.set(xlim=(-0.2, 2.2 * side), ylim=(side + 0.2, -0.6), aspect="equal")
    ax.set_axis_off()
    ax.text(0, -0.2, "keys →", ha="left", va="bottom", fontsize=9)
    for rank, amount in enumerate(work):
        y = (rank + 0.5) * side / num_ranks
        ax.text(1.35 * side, y, f"rank {rank}: {amount} squares", va="center", fontsize=10)
    return Picture(
        figure,
        f"{layout.capitalize()}, {num_ranks} ranks: the busiest computes {max(work)} squares, the "
        f"mean is {sum(work) / num_ranks:g}. A row is a piece of queries, and named after the rank "
        f"that holds it; squares above the diagonal are skipped.",
    )


def _draw_row(ax: Any, row: int, name: str, alpha: float, side: int) -> None:
    for key in range(row + 1):
        square = Rectangle((key, row), 0.94, 0.94, facecolor=colours.COMPUTE, alpha=alpha)
        ax.add_patch(square)
    ax.text(side + 0.3, row + 0.5, name, ha="left", va="center", fontsize=8)
