"""What sets the pace, and who waits: rows with a pencil."""

import pytest

from course_utils.formulas.pace import pace, who_waits

ROWS = [[10, 0.02, 0.05], [10, 0.03, 0.05], [10, 0.09, 0.09]]


def row(stages, nodes, micro_batch, extra):
    """Ten passes of a second, and what each pays."""
    return {
        "stages": stages,
        "nodes": nodes,
        "micro_batch": micro_batch,
        "num_micro_batches": 11 - stages,
        "predicted": 10.0,
        "measured": 10 * (1 + extra),
    }


@pytest.mark.parametrize(("layers", "work", "idle"), [(20, 0.04, 0.06), (2, 0.04, 0.0)])
def test_the_longer_of_work_and_launches(layers, work, idle):
    said = pace(ROWS, layers, work)
    assert said == pytest.approx({"launch": 0.005, "seconds": work + idle, "idle": idle})


@pytest.mark.parametrize(
    ("line", "extras"),
    [
        (1, {(2, 1, 1): 0.5, (2, 8, 8): 0.5, (4, 8, 1): 0.9}),
        (2, {(1, 1, 1): 0.5, (2, 8, 8): 0.5, (4, 8, 1): 0.5}),
        (3, {(2, 8, 1): 0.3, (2, 1, 8): 2.4, (4, 1, 1): 0.6}),
        (4, {(2, 1, 8): 0.3, (2, 8, 1): 2.4, (4, 1, 1): 0.6}),
    ],
)
def test_who_pays_names_the_line(line, extras):
    rows = [row(*sizes, extra) for sizes, extra in extras.items()] + [row(8, 4, 4, 0.1)]
    said = who_waits(rows)
    assert (said["paying"], said["line"]) == (3, line)
