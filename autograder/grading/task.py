"""Grade one submission: a task as bytes in, its result and its notebook as bytes out.

The same function serves a pool of processes on this machine and a Dask cluster.
"""

import base64
import json
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import nbformat
from nbformat import NotebookNode

from autograder.cells import cell_key, is_solution
from autograder.checking.verdict import Verdict
from autograder.grading import course_version, intake, outputs, referee, remarks
from autograder.grading.errors import GradingError, SandboxGoneError
from autograder.grading.notebook_plan import Question, steps
from autograder.grading.result import SubmissionResult
from autograder.grading.sandbox import process_sandbox
from autograder.grading.session import Limits, Session


@dataclass(frozen=True, kw_only=True)
class Task:
    """One submission to grade.

    Attributes:
        unit: Folder of the unit.
        student: Id of the student.
        raw: The notebook as it was handed in, or None if it cannot be read.
        release: The notebook as students got it, as JSON.
        seeds: Seeds of the hidden cases.
        remarks: What was found while the files were read.
        known: Verdicts that still hold, by exercise.
        is_unsafe: Whether the code may run without a sandbox.
        limits: Time limits of a cell and an answer.
        course: Version of the course that has to grade it.
    """

    unit: str
    student: str
    raw: bytes | None
    release: str
    seeds: tuple[int, ...]
    remarks: tuple[str, ...] = ()
    known: Mapping[str, Verdict] = field(default_factory=dict)
    is_unsafe: bool = False
    limits: Limits = field(default_factory=Limits)
    course: str = field(default_factory=course_version.of_course)

    def to_bytes(self) -> bytes:
        """The task as JSON."""
        raw = None if self.raw is None else base64.b64encode(self.raw).decode()
        return json.dumps(asdict(self) | {"raw": raw}).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> "Task":
        """The task that `to_bytes` wrote."""
        entry = json.loads(message)
        raw = None if entry["raw"] is None else base64.b64decode(entry["raw"])
        known = {name: Verdict(**each) for name, each in entry["known"].items()}
        lists = {name: tuple(entry[name]) for name in ("seeds", "remarks")}
        limits = Limits(**entry["limits"])
        return cls(**entry | {"raw": raw, "known": known, "limits": limits} | lists)


@dataclass(frozen=True)
class GradedSubmission:
    """The result of a submission and its notebook with outputs and verdicts, as JSON.

    Attributes:
        is_final: Whether it depends on the submission alone, not on an error of the machine.
    """

    result: SubmissionResult
    notebook: str
    is_final: bool = True

    def to_bytes(self) -> bytes:
        """All of it as JSON."""
        return json.dumps([self.result.to_json(), self.notebook, self.is_final]).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> "GradedSubmission":
        """The object that `to_bytes` wrote."""
        result, notebook, is_final = json.loads(message)
        return cls(SubmissionResult.from_json(result), notebook, is_final)


def run_task(message: bytes) -> bytes:
    """Grade one submission: a `Task` in, a `GradedSubmission` out.

    Raises:
        GradingError: If this process cannot grade any submission.
    """
    task = Task.from_bytes(message)
    if task.course != course_version.of_course():
        raise GradingError(
            f"The course on {platform.node()} is not the one with which this run began: close "
            "JupyterLab after a change and start it anew; on a cluster, install the same version."
        )
    return grade(task).to_bytes()


def grade(task: Task) -> GradedSubmission:
    """Grade one submission in this process's sandbox.

    Raises:
        GradingError: If no sandbox starts.
        SandboxGoneError: If the sandbox ended meanwhile.
    """
    stopwatch = _Stopwatch()
    release = nbformat.reads(task.release, as_version=4)
    with stopwatch.phase("intake"):
        merged = intake.merge(task.raw, release)
    if merged.is_foreign:
        return ungraded(task, merged.needs_human[0], *merged.remarks)
    client = process_sandbox.client(task.is_unsafe)
    session = Session(client, task.limits)
    with stopwatch.phase("cells and answers"):
        verdicts = referee.grade_notebook(session, merged.notebook, release, task.seeds, task.known)
    if not client.is_open:
        raise SandboxGoneError("the sandbox ended while it was graded")
    answers = {cell_key(cell): cell.source for cell in merged.notebook.cells if is_solution(cell)}
    result = SubmissionResult(
        unit=task.unit,
        student=task.student,
        verdicts=tuple(verdicts),
        remarks=(
            *task.remarks,
            *merged.remarks,
            *remarks.on_unusual_code(merged.notebook, release),
            *remarks.on_stopped_cells(merged.notebook, release),
        ),
        needs_human=(*merged.needs_human, *remarks.for_a_person(verdicts, session.exit_codes)),
        answers=answers,
        seconds=stopwatch.seconds,
        cpu_seconds=session.cpu_seconds,
    )
    return GradedSubmission(result, nbformat.writes(_with_remarks(merged.notebook, result)))


def ungraded(task: Task, why: str, *remarks: str) -> GradedSubmission:
    """No points yet for a submission that a person has to look at first."""
    notebook = nbformat.reads(task.release, as_version=4)
    verdicts = []
    for step in steps(notebook, notebook):
        if isinstance(step, Question):
            verdicts.append(referee.not_judged(step.exercise))
            notebook.cells[step.position].outputs = outputs.of_verdict(verdicts[-1])
    result = SubmissionResult(
        unit=task.unit,
        student=task.student,
        verdicts=tuple(verdicts),
        remarks=(*task.remarks, *remarks),
        needs_human=(why,),
    )
    return GradedSubmission(result, nbformat.writes(_with_remarks(notebook, result)))


def _with_remarks(notebook: NotebookNode, result: SubmissionResult) -> NotebookNode:
    """Insert the remarks as the first cell, where graders and students read them."""
    lines = [*(f"**A person will look at this:** {why}" for why in result.needs_human)]
    lines += result.remarks
    if lines:
        text = "\n".join(["**Remarks of the grader**", "", *(f"- {line}" for line in lines)])
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text, id="remarks-of-the-grader"))
    return notebook


class _Stopwatch:
    """Wall time by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - start
