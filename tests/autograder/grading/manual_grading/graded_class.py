"""A graded class with given answers in words: gradebook and graded notebooks.

Written as a grading run writes them; nothing is executed.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import nbformat

from autograder import catalogue
from autograder.cells import cell_key, nbgrader_metadata
from autograder.checking.verdict import Verdict
from autograder.grading.gradebook.grade_key import grade_key
from autograder.grading.gradebook.gradebook_writer import GradebookWriter
from autograder.grading.release.archive import built
from autograder.grading.result import SubmissionResult
from autograder.grading.run.run import configuration
from autograder.grading.run.submission import GradedSubmission
from autograder.grading.shown import outputs
from tests.notebooks.filling import ROOT, filled, released

UNIT = next(each for each in catalogue.units() if each.number == "05")
EXERCISE = catalogue.exercise("u05-choose")
CONFIG = """
from pathlib import Path
exec(compile(Path("{config}").read_text(), "{copy}", "exec"))
c.CourseDirectory.root = "{root}"
"""


def graded_class(root: Path, texts: Mapping[str, str]) -> None:
    """A course in a folder, whose students answered `EXERCISE` with these texts."""
    folder = UNIT.folder
    for place in ("solutions", "notebooks"):
        shutil.copytree(ROOT / place / folder, root / place / folder)
    shutil.copy(ROOT / "nbgrader_config.py", root / "course_config.py")
    config = root / "nbgrader_config.py"
    config.write_text(CONFIG.format(config=root / "course_config.py", copy=config, root=root))
    (root / "home").mkdir()
    (root / "grading_seed").write_text("a secret of this test")
    store = GradebookWriter(root, configuration(root), "a secret of this test")
    store.take(folder, built(root, folder), lambda: 1)
    for n, (student, text) in enumerate(texts.items()):
        store_result(root, store, result_of(student, text, n))
    store.close()


def stub() -> str:
    """What a student finds in place of a text."""
    return next(
        cell.source for cell in released(UNIT.folder).cells if cell_key(cell) == EXERCISE.id
    )


def result_of(student: str, text: str, n: int = 0) -> SubmissionResult:
    """The n-th of a class: all points, half of them or none, by exercise and student."""
    graded = [item for item in UNIT.exercises if not item.manual]
    return SubmissionResult(
        unit=UNIT.folder,
        student=student,
        verdicts=tuple(
            Verdict(
                exercise=item.id,
                points=item.points * ((n + k) % 3) / 2,
                max_points=item.points,
                sentence="Some cases are wrong.",
                hidden=True,
            )
            for k, item in enumerate(graded)
        ),
        answers={item.id: f"def {item.function}(): ..." for item in graded} | {EXERCISE.id: text},
    )


def store_result(root: Path, store: GradebookWriter, result: SubmissionResult) -> None:
    """What a run does with the result of a student."""
    submitted = root / "submitted" / result.student / result.unit
    submitted.mkdir(parents=True, exist_ok=True)
    key = grade_key(result.to_json().encode())
    store.put(GradedSubmission(result, _notebook_of(result)), submitted, key)


def _notebook_of(result: SubmissionResult) -> str:
    """The cells that count, with the points that the checks give."""
    notebook = filled(result.unit, result.answers)
    notebook.cells = [cell for cell in notebook.cells if nbgrader_metadata(cell)]
    verdicts = {f"{each.exercise}-test": each for each in result.verdicts}
    for cell in notebook.cells:
        if cell_key(cell) in verdicts:
            cell.outputs = outputs.of_verdict(verdicts[cell_key(cell)])
    return nbformat.writes(notebook)
