"""A mission refuses what no run can be, and says what its step really has."""

from dataclasses import replace

import pytest

from course_utils.planner import COURSE_FUNCTIONS, MISSION, Report, course_function

COURSE = {name: course_function(name) for name in COURSE_FUNCTIONS}
UNEVEN = replace(MISSION, tokens_per_step=2_000_000)


def test_a_step_of_whole_sequences_is_told_with_what_would_divide_better():
    assert UNEVEN.sequences_per_step == 244
    assert UNEVEN.step_in_words.startswith("1,998,848 tokens per step, 244 whole sequences")
    assert "2,097,152 (256 sequences) would divide better" in UNEVEN.step_in_words
    assert MISSION.step_in_words == "4,194,304 tokens per step"
    said = {label: note for label, _, note in Report(UNEVEN, COURSE).rows()}
    assert said["passes in each step"] == f"assumed: {UNEVEN.step_in_words}"


def test_days_are_those_of_the_steps_that_there_are():
    assert UNEVEN.days(1.0) == UNEVEN.num_tokens / 1_998_848 / 86_400


def test_less_than_a_sequence_is_refused():
    with pytest.raises(ValueError, match="1,000 is less than one sequence of 8,192 tokens"):
        replace(MISSION, tokens_per_step=1000)


def test_fewer_sequences_than_devices_are_told():
    few = replace(MISSION, tokens_per_step=4 * MISSION.seq_len)
    said = {label: note for label, _, note in Report(few, COURSE).rows()}
    assert "leave some of 8 devices without one" in said["passes in each step"]


@pytest.mark.parametrize("utilisation", [40, 0, -0.1, float("nan")])
def test_a_utilisation_that_is_no_share_is_refused(utilisation):
    with pytest.raises(ValueError, match="a share between 0 and 1"):
        replace(MISSION, utilisation=utilisation)
