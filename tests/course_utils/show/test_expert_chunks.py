"""The picture of which phase hides which all-to-all."""

import pytest

from course_utils.records.traces import recorded_rows
from course_utils.show import hidden_by_phase
from course_utils.show.expert_chunks import CALLS, PHASES


def test_the_caption_has_the_records_sums():
    caption = hidden_by_phase().caption
    assert "of 113.4 ms of all-to-alls 4.19 ms are exposed, in 129 ms" in caption


def test_every_sum_of_the_record_is_drawn():
    hidden = [row for row in recorded_rows("deepseek_v3_sums") if row["quantity"] == "hidden"]
    assert {row["communication"] for row in hidden} == {*CALLS}
    assert {row["computation"] for row in hidden} == {*PHASES}


def test_what_is_hidden_and_what_is_not_make_up_each_call():
    rows = recorded_rows("deepseek_v3_sums")
    for call in CALLS:
        own = [row for row in rows if row["communication"] == call]
        (whole,) = (row["seconds"] for row in own if row["quantity"] == "communicating")
        parts = sum(row["seconds"] for row in own if row["quantity"] in ("hidden", "exposed"))
        assert parts == pytest.approx(whole, rel=1e-3)
