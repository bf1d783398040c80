"""What was recorded here judges the same on another machine, with other kernels, sums and threads.

These settings vary everything at once; `test_all_edits` in the lane of whole programs tries all
wrong answers. `python -m tests.other_machine` tries any answers on any machine.
"""

import subprocess
import sys
from pathlib import Path

import pytest

TRIED = {
    "model answers": ("other-kernels-0", "model"),
    "right answers": ("other-kernels-1", "right"),
    "wrong answers": ("other-kernels-2", "edits", "wrong"),
}
SHARE = 20  # one of so many wrong answers


def differing(machine, answers, *options):
    """Each verdict that is another one there, and how many were tried."""
    command = [sys.executable, "-m", "tests.other_machine", machine, "--answers", *answers]
    done = subprocess.run(
        [*command, *options],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    *found, summary = done.stdout.splitlines()
    assert int(summary.split()[0]) > 20
    return found


@pytest.mark.parametrize("tried", TRIED)
def test_verdicts_are_the_same_on_another_machine(tried):
    machine, *answers = TRIED[tried]
    assert differing(machine, answers, "--share", str(SHARE)) == []
