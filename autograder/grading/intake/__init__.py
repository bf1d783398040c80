"""Intake: from what a student handed in to the release with the student's answers in it.

Nothing of a submission is trusted but the text of its answers. `find` takes the bytes of the
notebook out of a folder, `take` puts its answers into the release, and the module `lms` fills the
folders from the download of a learning platform.
"""

from autograder.grading.intake.folder import Found, find
from autograder.grading.intake.merge import Merged, merge

__all__ = ["Found", "Merged", "find", "merge"]
