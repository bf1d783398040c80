"""All wrong answers on another machine: `make test` tries one in twenty there."""

import pytest

from tests.other_machine.test_other_machine import differing

PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_all_wrong_answers_lose_the_same_points_with_the_same_hints(part):
    assert differing("other-kernels-0", ["edits", "wrong"], "--part", f"{part}/{PARTS}") == []
