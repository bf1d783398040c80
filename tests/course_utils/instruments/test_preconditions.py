"""What an instrument changes for its while is as before afterwards."""

import gc

import pytest

from course_utils.instruments.preconditions import older_objects_left_alone


def test_the_collector_is_as_before_also_after_an_error():
    before = gc.get_freeze_count()
    with pytest.raises(KeyError), older_objects_left_alone():
        assert gc.get_freeze_count() > before
        raise KeyError
    assert gc.get_freeze_count() == before


def test_what_somebody_froze_stays_frozen():
    gc.freeze()
    try:
        with older_objects_left_alone():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
