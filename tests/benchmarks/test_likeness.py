"""Time to compare all answers of a class with each other."""

from autograder.grading.report.course_texts import course_texts_of
from autograder.grading.report.likeness import find_alike
from tests.autograder.grading.classes import results_of_a_class
from tests.notebooks.filling import ROOT

UNIT = "05_activation_recomputation"


def test_ten_answers_of_each_of_three_hundred_students(timed):
    results = results_of_a_class(UNIT, 300)
    with timed("all answers of 300 students to the exercises of a unit compared"):
        for course in course_texts_of(ROOT, UNIT):
            exercise = course.exercise
            answers = {
                each.student: each.answers[exercise] for each in results if exercise in each.answers
            }
            find_alike(course, answers)
