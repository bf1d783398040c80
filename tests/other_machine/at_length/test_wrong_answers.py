"""All wrong answers on another machine, or one in `ONE_IN`; `make test` tries one in twenty."""

import pytest

from tests.other_machine.test_same_verdicts import differing
from tests.sampling import ONE_IN

PARTS = max(2, 8 // ONE_IN)


@pytest.mark.parametrize("part", range(PARTS))
def test_all_wrong_answers_lose_the_same_points_with_the_same_hints(part):
    options = ["--part", f"{part}/{PARTS}", "--share", str(ONE_IN)]
    assert differing("other-kernels-0", ["edits", "wrong"], *options) == []
