"""What sets the pace of a micro-batch on measured layouts, and which of them wait beyond that?"""

from collections.abc import Sequence

from course_utils import colours
from course_utils.planner.predicted import Prediction
from course_utils.show.picture import Picture, axes

MS = 1e3
NAMES = {"1.34": "1.34B", "3.57": "3.57B", "8.86": "8.86B"}
MARKERS = {"1.34": "o", "3.57": "s", "8.86": "^"}
BIN_SECONDS, FIRST_SECONDS, LAST_SECONDS = 0.05, -0.1, 1.3


def pace_by_work(layouts: Sequence[Prediction], launch_seconds: float) -> Picture:
    """Milliseconds of a layer: measured over the GPU's work, and the longer of work and launches.

    Args:
        layouts: Of one stage.
        launch_seconds: Of the CPU for a layer.
    """
    figure, ax = axes(height=3.2)
    errors = []
    for size, name in NAMES.items():
        own = [each for each in layouts if each.run.model == size]
        layers = [each.run.num_layers for each in own]
        work = [each.work_seconds / n for each, n in zip(own, layers, strict=True)]
        took = [
            each.run.step_seconds / each.run.num_micro_batches / n
            for each, n in zip(own, layers, strict=True)
        ]
        ax.plot(
            [MS * each for each in work],
            [MS * each for each in took],
            MARKERS[size],
            color=colours.MEASURED,
            markersize=4,
            label=name,
        )
        errors += [abs(max(x, launch_seconds) / y - 1) for x, y in zip(work, took, strict=True)]
    most = MS * max(each.work_seconds / each.run.num_layers for each in layouts)
    corner = MS * launch_seconds
    ax.plot([0, corner, most], [corner, corner, most], color=colours.COMPUTED, linewidth=1.2)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ticks = [1, 2, 4, 8, 16, 32]
    ax.set_xticks(ticks, ticks)
    ax.set_yticks(ticks[2:], ticks[2:])
    ax.set_xlabel("work of the GPU for a layer and micro-batch, ms")
    ax.set_ylabel("measured, ms")
    ax.legend(frameon=False, loc="upper left")
    within = sum(each <= 0.1 for each in errors)
    return Picture(
        figure,
        f"{len(layouts)} layouts of three sizes: {within} lie within 10 % of the line, the longer "
        f"of the GPU's work and {corner:.1f} ms of launches.",
    )


def extra_by_stages(layouts: Sequence[Prediction]) -> Picture:
    """How many layouts take how much longer than predicted, by number of stages.

    Args:
        layouts: Of any number of stages.
    """
    figure, ax = axes(height=2.6)
    count = round((LAST_SECONDS - FIRST_SECONDS) / BIN_SECONDS)
    edges = [FIRST_SECONDS + BIN_SECONDS * n for n in range(count + 1)]
    kinds = {
        "one stage": [each for each in layouts if each.run.pipeline == 1],
        "two": [each for each in layouts if each.run.pipeline == 2],
        "more": [each for each in layouts if each.run.pipeline > 2],
    }
    shades = (colours.NEUTRAL, colours.COMMUNICATION, colours.IDLE)
    ax.hist(
        [[each.extra_seconds for each in own] for own in kinds.values()],
        edges,
        color=shades,
        label=list(kinds),
    )
    ax.set_yscale("log")
    ax.set_xlabel("time of a micro-batch beyond the prediction, s")
    ax.set_ylabel("layouts")
    ax.legend(frameon=False)
    late = [each for each in layouts if each.extra_seconds > BIN_SECONDS * 4]
    return Picture(
        figure,
        f"{len(layouts)} layouts. {len(late)} of them lie apart from all others, to the right; "
        "none of those has one stage.",
    )
