"""Steps of one's own trainer beside PyTorch's: each line is the one that it is said to be."""

import pytest

from autograder.exercises.model_answers import model_answer
from course_utils.reference.bucketing import backward_in_buckets
from course_utils.reference.sharding import prefetched_step
from course_utils.show.side_by_side import DDP_STEPS, FSDP_STEPS, NOT_FOUND, SideBySide
from tests.answer_bank import make
from tests.answer_bank.every import ANSWER_BANKS

# What stands in the line of each step.
OF_DDP = ("hook", ".backward()", ">= bucket_bytes", "", "all_reduce(", ".wait()", "")
OF_FSDP = ("all_gather(", ".wait()", "del weight", "reduce_scatter(")


@pytest.mark.parametrize(
    ("function", "steps", "wanted"),
    [
        (backward_in_buckets, DDP_STEPS, OF_DDP),
        (model_answer("u09-buckets"), DDP_STEPS, OF_DDP),
        (prefetched_step, FSDP_STEPS, OF_FSDP),
        (model_answer("u10-prefetch"), FSDP_STEPS, OF_FSDP),
    ],
)
def test_every_step_has_its_line_in_the_courses_and_in_the_model_answer(function, steps, wanted):
    found = [own for _, own in SideBySide(function, steps)._rows()]
    for own, words in zip(found, wanted, strict=True):
        assert own is not None and words in own.text


@pytest.mark.parametrize("number", range(len(ANSWER_BANKS["u09-buckets"].right)))
def test_answers_in_another_style_have_their_lines_too(number):
    function = make(ANSWER_BANKS["u09-buckets"].right[number], "backward_in_buckets")
    found = {step.what: own for step, own in SideBySide(function, DDP_STEPS)._rows()}
    for names in (("backward",), ("all_reduce",), ("wait",)):
        (what,) = (step.what for step in DDP_STEPS if step.names == names)
        assert found[what] is not None and names[0] in found[what].text


def test_a_page_shows_both_lines_and_a_step_that_is_not_there():
    table = SideBySide(lambda: None, DDP_STEPS)
    assert ">yours</th>" in table._repr_html_()
    assert repr(table).count(f" {NOT_FOUND} | ") == len(DDP_STEPS)
    full = SideBySide(backward_in_buckets, DDP_STEPS)
    assert NOT_FOUND not in repr(full)
    assert ">the course&#x27;s</th>" in full._repr_html_()
    assert "<pre>loss.backward()</pre>" in full._repr_html_()
    assert "bucket_bytes:</pre>" in full._repr_html_()
    assert "void all_reduce_bucket(Bucket&amp; bucket);" in full._repr_html_()
