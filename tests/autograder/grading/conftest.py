"""Courses for tests of grading: one for each module, and a small one, of which each has a copy."""

import pytest

from tests.autograder.grading.changing import whole
from tests.autograder.grading.course_folder import Course
from tests.autograder.grading.small import generated, small

__all__ = ["generated", "small", "whole"]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return Course(tmp_path_factory.mktemp("course"))
