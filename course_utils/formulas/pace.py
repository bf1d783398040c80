"""What sets the pace of a micro-batch, and who waits beyond that?

A GPU works on what a CPU has launched, so a micro-batch takes the longer of both. Launches cost the
same for every layer, however wide it is.

    >>> pace([[10, 0.02, 0.05], [10, 0.09, 0.09]], num_layers=20, work_seconds=0.04)["idle"]
    0.06
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

STEP_SECONDS, NUM_STEPS = 1e-5, 2000  # of the constants that are tried
PAYS_SECONDS = 0.2  # of a micro-batch beyond the model
SLEEP, FLUSH, COPY, BARRIER = 1, 2, 3, 4  # lines of code, as the exercise numbers them
GROWS = 2  # times as much, from the least to the most


def pace(rows: Sequence[Sequence[float]], num_layers: int, work_seconds: float) -> dict[str, float]:
    """Seconds of the CPU for a layer, fitted; what follows for another micro-batch.

    Args:
        rows: Layers, seconds of the GPU's work and measured seconds of some micro-batches.
        num_layers: Of the other one.
        work_seconds: Of its GPU.

    Returns:
        ``launch`` of a layer, with the least sum of squared relative errors; ``seconds`` of the
        other micro-batch; ``idle`` seconds of its GPU.
    """

    def error(launch: float) -> float:
        return sum(
            (max(work, launch * layers) / measured - 1) ** 2 for layers, work, measured in rows
        )

    launch = min((step * STEP_SECONDS for step in range(NUM_STEPS)), key=error)
    seconds = max(work_seconds, launch * num_layers)
    return {"launch": launch, "seconds": seconds, "idle": seconds - work_seconds}


def who_waits(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """How many layouts pay beyond the model, how much by stages, and for which line of code.

    Args:
        rows: Layouts by ``stages``, ``nodes``, ``micro_batch``, ``num_micro_batches``, and the
            ``predicted`` and ``measured`` seconds of a step.

    Returns:
        ``paying`` layouts; the median of what a micro-batch pays with ``two`` stages and with
        ``more``, 0 where none pays; ``line``, a number.
    """
    extra = [
        (row["measured"] - row["predicted"]) / (row["num_micro_batches"] + row["stages"] - 1)
        for row in rows
    ]
    paying = [(row, each) for row, each in zip(rows, extra, strict=True) if each > PAYS_SECONDS]

    def typical(belongs: Callable[[Mapping[str, float]], bool]) -> float:
        return median([each for row, each in paying if belongs(row)] or [0.0])

    def grows(name: str) -> bool:
        values = [row[name] for row, _ in paying]
        least, most = min(values), max(values)
        return typical(lambda row: row[name] == most) > GROWS * typical(
            lambda row: row[name] == least
        )

    line = SLEEP
    if any(row["stages"] == 1 for row, _ in paying):
        line = FLUSH
    elif grows("micro_batch"):
        line = COPY
    elif grows("nodes"):
        line = BARRIER
    return {
        "paying": len(paying),
        "two": typical(lambda row: row["stages"] == 2),
        "more": typical(lambda row: row["stages"] > 2),
        "line": line,
    }
