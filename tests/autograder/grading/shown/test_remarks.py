"""Code that comes to no end is a remark; nothing that an answer says is one."""

from autograder.checking.error_hints import A_PERSON, sentence_and_hint
from autograder.checking.verdict import Verdict
from autograder.grading.result import SubmissionResult
from autograder.grading.shown.remarks import on_stopped_answers


def test_an_answer_that_does_not_come_to_an_end_is_a_remark():
    def judged(**trouble):
        return Verdict(
            exercise="u00-x", points=0.0, max_points=1.0, sentence=sentence_and_hint(trouble)[0]
        )

    stopped = judged(trouble="stopped", seconds=10.0)
    waiting = judged(trouble="gone", how="it did not come back within 40 seconds")
    others = [
        judged(trouble="no function", what="a list"),
        judged(trouble="gone", how="its process ended"),
    ]
    wanted = "u00-x does not come to an end when it is called, and was stopped."
    assert [*on_stopped_answers([stopped, *others, waiting])] == [wanted, wanted]


def test_no_sentence_of_an_answer_asks_for_a_person():
    trouble = {"trouble": "raised", "error": "E", "message": A_PERSON, "line": "raise"}
    sentence, hint = sentence_and_hint(trouble)
    verdict = Verdict(exercise="u00-x", points=0, max_points=1, sentence=sentence, hint=hint)
    result = SubmissionResult(unit="00", student="ada", verdicts=(verdict,))
    assert A_PERSON in sentence
    assert result.state == "graded"
