"""All wrong answers on another machine: `make test` tries one in twenty there.

`ONE_IN=4` in the environment tries one in four.
"""

import os

import pytest

from tests.other_machine.test_other_machine import differing

PARTS = 8
SHARE = os.environ.get("ONE_IN", "1")


@pytest.mark.parametrize("part", range(PARTS))
def test_all_wrong_answers_lose_the_same_points_with_the_same_hints(part):
    options = ["--part", f"{part}/{PARTS}", "--share", SHARE]
    assert differing("other-kernels-0", ["edits", "wrong"], *options) == []
