"""The whole table of the planner's errors, computed anew: `make acceptance`."""

from course_utils.planner.truth.measures import measures
from tests.course_utils.planner.test_truth import COMMITTED, assert_as_committed


def test_the_table_is_what_the_command_computes():
    lines = [line for measure in measures() for line in measure.lines()]
    assert [(line.on, line.by) for line in lines] == list(COMMITTED)
    assert_as_committed(lines)
