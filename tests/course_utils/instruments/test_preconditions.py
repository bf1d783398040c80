"""An instrument restores the collector's settings when it ends."""

import gc

import pytest

from course_utils.instruments.preconditions import older_objects_frozen


def test_the_collector_is_restored_even_after_an_error():
    before = gc.get_freeze_count()
    with pytest.raises(KeyError), older_objects_frozen():
        assert gc.get_freeze_count() > before
        raise KeyError
    assert gc.get_freeze_count() == before


def test_objects_frozen_before_stay_frozen():
    gc.freeze()
    try:
        with older_objects_frozen():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
