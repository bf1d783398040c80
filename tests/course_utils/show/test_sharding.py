"""The picture of sharding says in words what it draws."""

import pytest

from course_utils.show import kept_and_sent
from tests.course_utils.show.texts import overlapping_texts

GB = 10**9
SENT = {0: 28 * GB, 1: 28 * GB, 2: 28 * GB, 3: 42 * GB}


@pytest.mark.parametrize(
    ("limit_bytes", "words"),
    [
        (80 * GB, "The state fits from stage 1 on; stage 3 keeps 16.0 GB and sends 42.0."),
        (200 * GB, "The state fits from stage 0 on; stage 3 keeps 16.0 GB and sends 42.0."),
        (8 * GB, "No state fits; stage 3 keeps 16.0 GB and sends 42.0."),
    ],
)
def test_state_and_volume_in_words(limit_bytes, words):
    picture = kept_and_sent({0: 128 * GB, 1: 44 * GB, 2: 30 * GB, 3: 16 * GB}, SENT, limit_bytes)
    assert picture.caption == words
    assert overlapping_texts(picture.figure) == []
