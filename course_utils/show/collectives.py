"""How long is each rank inside a collective, and how much of that moves data?"""

from collections.abc import Mapping

from course_utils import colours
from course_utils.show.picture import Picture, axes_beside

MS = 1e3  # of a second


def transfer_and_waiting(
    seconds: Mapping[str, Mapping[int, float]], transfer_seconds: Mapping[str, float]
) -> Picture:
    """Seconds of each rank inside of collectives, parted into transfer and waiting.

    Args:
        seconds: Of one call, by collective and rank.
        transfer_seconds: Of it from the start of the last rank to the end, by collective.
    """
    figure, all_axes = axes_beside(2.9, [1] * len(seconds), sharey=True)
    described = []
    for place, (ax, (collective, of_ranks)) in enumerate(
        zip(all_axes, seconds.items(), strict=True)
    ):
        transfer = transfer_seconds[collective]
        for row, (rank, taken) in enumerate(sorted(of_ranks.items())):
            moving = MS * min(transfer, taken)
            names = ("", "") if row or place else ("transfer", "waiting for other ranks")
            ax.barh(row, moving, 0.7, color=colours.COMMUNICATION, label=names[0])
            waiting = MS * taken - moving
            ax.barh(row, waiting, 0.7, moving, color=colours.IDLE, label=names[1])
            ax.annotate(f" {MS * taken:.1f}", (MS * taken, row), va="center")
        ax.set_yticks(range(len(of_ranks)), [f"rank {rank}" for rank in sorted(of_ranks)])
        ax.set_xlim(0, 1.15 * MS * max(of_ranks.values()))
        ax.set_xlabel(f"ms of a {collective}")
        described.append(
            f"a {collective} takes {MS * min(of_ranks.values()):.1f} to "
            f"{MS * max(of_ranks.values()):.1f} ms, of which {MS * transfer:.1f} are transfer"
        )
    all_axes[0].invert_yaxis()
    figure.legend(ncols=2, frameon=False, loc="outside upper center")
    text = "; ".join(described)
    return Picture(figure, f"{text[0].upper()}{text[1:]}.")
