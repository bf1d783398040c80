"""A temporary course with a local exchange, in which the real nbgrader commands run."""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder.student.work_folder import WorkFolder
from tests.autograder.grading.warm_nbgrader import nbgrader
from tests.notebooks.filling import ROOT, filled, solved
from tests.running import MEASURED

NOON = "2026-01-01 12:00:00.000000 UTC"
CONFIG = """
from pathlib import Path
exec(compile(Path("{config}").read_text(), "{copy}", "exec"))
c.Exchange.root = "{exchange}"
c.CourseDirectory.root = "{course}"
"""


def put_submission(
    root: Path, student: str, unit: str, notebook: NotebookNode, when: str = NOON
) -> Path:
    """Put a submission where `nbgrader collect` would, and give its folder."""
    place = root / "submitted" / student / unit
    place.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, place / f"{unit}.ipynb")
    (place / "timestamp.txt").write_text(when, encoding="utf-8")
    return place


class Course:
    """A course in a folder, its gradebook, and a student's folder beside it."""

    def __init__(self, folder: Path):
        self.folder, self.student_folder = folder / "course", folder / "student"
        self.exchange = folder / "exchange"
        for place in (self.folder, self.student_folder, self.exchange):
            place.mkdir()
        self.exchange.chmod(0o777)
        if shared := os.environ.get(MEASURED):
            (self.folder / "grading").mkdir()
            (self.folder / "grading" / "measured").symlink_to(shared)
        shutil.copytree(ROOT / "solutions", self.folder / "solutions")
        shutil.copy(ROOT / "nbgrader_config.py", self.folder / "course_config.py")
        self._configure(self.folder)
        self._configure(self.student_folder)

    def _configure(self, place: Path) -> None:
        text = CONFIG.format(
            config=self.folder / "course_config.py",
            copy=self.folder / "nbgrader_config.py",
            exchange=self.exchange,
            course=place,
        )
        (place / "nbgrader_config.py").write_text(text, encoding="utf-8")

    def run(self, *arguments: str, place: Path | None = None) -> str:
        """Run one nbgrader command; what it said, if it succeeded."""
        scripts = str(Path(sys.executable).parent)
        environment = os.environ | {
            "PATH": scripts + os.pathsep + os.environ["PATH"],
            "COURSE_GRADING_SEED": "a secret of this test",
        }
        code, said = nbgrader(*arguments, place=place or self.folder, environment=environment)
        assert code == 0, said
        return said

    def autograde(self, unit: str, *students: str) -> None:
        """Grade some students (patterns), two commands at a time: stock nbgrader allows it."""
        commands = [("autograde", unit, f"--student={pattern}") for pattern in students]
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(lambda command: self.run(*command), commands))

    def hand_in(self, student: str, unit: str, answers: dict[str, str], when: str = NOON) -> None:
        put_submission(self.folder, student, unit, filled(unit, answers), when)

    def hand_in_from_work_folder(self, student: str, unit: str) -> None:
        """The file that `make submit` writes, for a solved notebook with a cell of one's own."""
        work = self.folder.parent / "course_of_a_student"
        shutil.copytree(ROOT / "notebooks", work / "notebooks", dirs_exist_ok=True)
        (work / "work" / unit).mkdir(parents=True)
        notebook = filled(unit, solved(unit))
        notebook.cells.insert(5, nbformat.v4.new_code_cell("print('of my own')"))
        nbformat.write(notebook, work / "work" / unit / f"{unit}.ipynb")
        handed_in = nbformat.read(WorkFolder(work).submit(unit), as_version=4)
        put_submission(self.folder, student, unit, handed_in)

    def gradebook(self) -> Gradebook:
        return Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}", "efficient_llm_training")

    def scores(self, student: str, unit: str) -> dict[str, float | None]:
        """Automatic scores by exercise; None where a person has to read."""
        with self.gradebook() as book:
            submission = book.find_submission(unit, student)
            return {
                grade.name.removesuffix("-test"): grade.auto_score
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
