"""Configuration of nbgrader for this course; every `nbgrader` command run here reads it."""

import importlib.util
import os
import tempfile
import uuid
from pathlib import Path

c = get_config()  # noqa: F821  (nbgrader gives this name to the file)

ROOT = Path(__file__).parent
SEED_FILE = ROOT / "grading_seed"

c.CourseDirectory.course_id = "efficient_llm_training"
c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"

# Only the generated notebook of a unit is released: beside it lie the solutions and the mistakes.
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints",
    "*.pyc",
    "__pycache__",
    "*.py",
    "*.diff",
    "*.svg",
    "progress*.json",
]

c.ClearSolutions.code_stub = {
    "python": '# Write your code here.\nraise NotImplementedError("not written yet")'
}
c.ClearSolutions.text_stub = (
    "*Double-click here, write your answer in place of this line, and run the cell (Shift-Enter).*"
)

# A kernel that has done its work is not asked to leave politely: that takes a second each time.
c.ExecutePreprocessor.shutdown_kernel = "immediate"
c.ExecutePreprocessor.timeout = 120

# Pages are read without a kernel: with a widget's state stored they would try to show the widget,
# and show nothing; without it they take the still picture beside it.
c.ExecutePreprocessor.store_widget_state = False

# Training runs and real processes only show something: no answer and no check depends on them.
c.ExecutePreprocessor.skip_cells_with_tag = "demonstration"

# Two commands at a time must not race for a free port: a kernel listens on files of its own,
# which also keeps other people of the machine out. Windows has only ports.
if os.name == "posix":
    c.KernelManager.transport = "ipc"
    c.KernelManager.ip = str(Path(tempfile.gettempdir()) / f"kernel-{uuid.uuid4().hex[:12]}")

# One thread a kernel: several that share the cores would make each other wait, many times over.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The seed of the hidden cases: one line in the ignored file `grading_seed`, a new one each year.
if SEED_FILE.exists():
    os.environ.setdefault("COURSE_GRADING_SEED", SEED_FILE.read_text(encoding="utf-8").strip())

# Whoever has the grading rooms (students have not) grades with them, by command and in formgrader.
if importlib.util.find_spec("autograder.grading"):
    from autograder.grading import plugin
    from autograder.grading.shown import html_sanitizer, preprocessors

    plugin.use()
    html_sanitizer.use()
    c.HTMLExporter.filters = {
        name: f"autograder.grading.shown.html_sanitizer.{name}"
        for name in ("highlight_code", "markdown2html")
    }
    c.HTMLExporter.preprocessors = [
        "autograder.grading.shown.html_sanitizer.PlainNames",
        "autograder.grading.shown.preprocessors.ModelAnswers",
    ]
    c.GenerateFeedback.preprocessors = preprocessors.OF_FEEDBACK
