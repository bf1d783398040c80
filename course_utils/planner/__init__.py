"""The plan of the running case: formulas composed into work, days, memory and cost."""

from course_utils.formulas.step import Step
from course_utils.planner.choice import Choice
from course_utils.planner.costs import PlanCosts, calibrate_from
from course_utils.planner.mission import MISSION, Mission
from course_utils.planner.quantities import (
    COURSE_FUNCTIONS,
    QUANTITIES,
    Functions,
    Quantity,
    course_function,
)
from course_utils.planner.report import Report

__all__ = [
    "COURSE_FUNCTIONS",
    "MISSION",
    "QUANTITIES",
    "Choice",
    "Functions",
    "Mission",
    "PlanCosts",
    "Quantity",
    "Report",
    "Step",
    "calibrate_from",
    "course_function",
]
