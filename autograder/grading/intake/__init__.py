"""Intake: turn what a student handed in into the release with the student's answers in it.

Only the text of the answers is taken from a submission. `find` reads the notebook in a folder,
`merge` puts its answers into the release, and the module `lms` fills the folders from the download
of a learning platform.
"""

from autograder.grading.intake.folder import Found, find
from autograder.grading.intake.merge import Merged, merge, num_answers

__all__ = ["Found", "Merged", "find", "merge", "num_answers"]
