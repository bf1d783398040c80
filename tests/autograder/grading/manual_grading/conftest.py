"""A small class that is graded once and copied for each test."""

import shutil

import pytest

from tests.autograder.grading.manual_grading.graded_class import graded_class, stub

TEXTS = {
    "ada": "On 24 GB full recomputation, 21.9 GB.",
    "grace": "on 24 GB: full recomputation, 21.90 GB",
    "alan": "None.",
    "mary": stub(),
}


@pytest.fixture(scope="session")
def graded(tmp_path_factory):
    root = tmp_path_factory.mktemp("graded")
    graded_class(root, TEXTS)
    return root


@pytest.fixture
def root(graded, tmp_path):
    return shutil.copytree(graded, tmp_path / "course")
