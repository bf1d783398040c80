"""A graded class as tables: exercises that checks judge, and those that people read."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from autograder.catalogue import Unit
from autograder.checking.verdict import Verdict
from autograder.grading.gradebook.submission_status import SubmissionStatus
from autograder.grading.result import SubmissionResult

NUM_HINTS = 3


def exercise_table(unit: Unit, results: Sequence[SubmissionResult]) -> pd.DataFrame:
    """One row for each exercise that a check gives points for.

    Columns: ``title``; the numbers of submissions ``judged``, of them ``full``, ``part``, ``wrong``
    and ``not_written``; ``full_fraction`` of the submissions and ``points_fraction`` of the points;
    ``hints``, the most frequent with their counts. Submissions that could not be read are left out.
    """
    rows = {}
    results = [each for each in results if each.answers]
    for item in unit.exercises:
        verdicts = [v for each in results for v in each.verdicts if v.exercise == item.id]
        if not item.manual:
            rows[item.id] = {"title": item.title, **_summary(verdicts)}
    return pd.DataFrame.from_dict(rows, orient="index")


def _summary(verdicts: Sequence[Verdict]) -> dict[str, object]:
    outcomes = Counter(map(_outcome, verdicts))
    most = sum(each.max_points for each in verdicts)
    hints = Counter(each.hint for each in verdicts if each.written and each.hint)
    return {
        "judged": len(verdicts),
        **{name: outcomes[name] for name in ("full", "part", "wrong", "not_written")},
        "full_fraction": outcomes["full"] / max(1, len(verdicts)),
        "points_fraction": sum(each.points for each in verdicts) / most if most else 0.0,
        "hints": hints.most_common(NUM_HINTS),
    }


def _outcome(verdict: Verdict) -> str:
    if verdict.passed:
        return "full"
    if not verdict.written:
        return "not_written"
    return "part" if verdict.points else "wrong"


def text_table(unit: Unit, found: Sequence[SubmissionStatus]) -> pd.DataFrame:
    """One row for each exercise that a person reads.

    Columns: ``title``; ``handed_in``, the number of submissions, ``written`` those of them with a
    text, and ``read`` those of them that wait for nobody, not for a second look either;
    ``full_fraction`` of those read, and ``points_fraction`` of their points.
    """
    rows = {}
    for item in unit.exercises:
        if item.manual:
            scores = [each.scores[item.id] for each in found if item.id in each.scores]
            written = [each for each in scores if each.is_written]
            read = [each for each in written if not (each.is_unread or each.is_doubtful)]
            most = sum(each.max_points for each in read)
            rows[item.id] = {
                "title": item.title,
                "handed_in": len(scores),
                "written": len(written),
                "read": len(read),
                "full_fraction": sum(s.points >= s.max_points for s in read) / max(1, len(read)),
                "points_fraction": sum(each.points for each in read) / most if most else 0.0,
            }
    return pd.DataFrame.from_dict(rows, orient="index")
