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
    for ax, (collective, of_ranks) in zip(all_axes, seconds.items(), strict=True):
        transfer = MS * transfer_seconds[collective]
        taken = [MS * of_ranks[rank] for rank in sorted(of_ranks)]
        moving = [min(transfer, each) for each in taken]
        waiting = [each - moved for each, moved in zip(taken, moving, strict=True)]
        rows = range(len(taken))
        ax.barh(rows, moving, 0.7, color=colours.COMMUNICATION, label="transfer")
        ax.barh(rows, waiting, 0.7, moving, color=colours.IDLE, label="waiting for other ranks")
        for row, each in enumerate(taken):
            ax.annotate(f" {each:.1f}", (each, row), va="center")
        ax.set_yticks(rows, [f"rank {rank}" for rank in sorted(of_ranks)])
        ax.set_xlim(0, 1.15 * max(taken))
        ax.set_xlabel(f"ms of a {collective}")
        described.append(
            f"a {collective} takes {min(taken):.1f} to {max(taken):.1f} ms, "
            f"of which {transfer:.1f} are transfer"
        )
    all_axes[0].invert_yaxis()
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=2, frameon=False, loc="outside upper center")
    text = "; ".join(described)
    return Picture(figure, f"{text[0].upper()}{text[1:]}.")
