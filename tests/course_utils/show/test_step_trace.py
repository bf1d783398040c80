"""The time line of a recorded step: every event that is drawn, in its row."""

from course_utils.records.ddp_step import recorded_ddp_step
from course_utils.reference.step_trace import ALL_REDUCE
from course_utils.show.step_trace import step_trace_picture
from tests.course_utils.show.texts import overlapping_texts


def test_each_rank_has_a_row_of_operators_and_one_for_each_thread_of_gloo():
    record = recorded_ddp_step()
    picture = step_trace_picture(record)
    ax = picture.figure.axes[0]
    rows = [label.get_text() for label in ax.get_yticklabels()]
    for rank, events in record["events"].items():
        assert rows.count(f"rank {rank}, operators") == 1
        threads = {each["thread"] for each in events if each["name"] == ALL_REDUCE}
        assert rows.count(f"rank {rank}, gloo") == len(threads)
    every = [each for events in record["events"].values() for each in events]
    drawn = sum(each["name"] != "c10d::allreduce_" for each in every)
    assert len(ax.collections) == drawn
    assert record["date"] in picture.caption
    assert "2.0 MiB" in [text.get_text() for text in ax.texts]
    assert not overlapping_texts(picture.figure)
