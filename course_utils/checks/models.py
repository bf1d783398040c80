"""How a student's function is asked about a model, which a case names by its plain sizes."""

from typing import Any

from course_utils.checks.check import Case
from course_utils.checks.spec import model_of


def call_with_model(answer: Any, case: Case) -> object:
    """Hand the student's function a model made from its plain sizes, and the other sizes."""
    sizes = dict(case)
    return answer(model_of(sizes.pop("model")), *sizes.values())
