"""Grade one submission: what it earns, and its notebook with outputs and verdicts.

The same function serves the processes on this machine and a Dask cluster. What reads a
student's bytes runs in a process that is thrown away, so that no submission can stop a run.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import nbformat
from nbformat import NotebookNode

from autograder.cells import cell_key, is_solution
from autograder.checking.verdict import Verdict
from autograder.grading import course_version, intake
from autograder.grading.errors import GradingError, SandboxGoneError
from autograder.grading.gradebook.grade_key import Key, grade_key
from autograder.grading.result import REMARKS_CELL, SubmissionResult
from autograder.grading.run import bounded_process, referee
from autograder.grading.run.notebook_plan import questions
from autograder.grading.run.session import Session
from autograder.grading.run.submission_limits import Limits
from autograder.grading.sandbox import process_sandbox
from autograder.grading.sandbox.process_sandbox import Sandbox
from autograder.grading.shown import outputs, remarks


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One submission to grade.

    Attributes:
        unit: Folder of the unit.
        student: Id of the student.
        raw: The notebook as it was handed in, or None if it cannot be read.
        release: The notebook as students got it, as JSON.
        other_releases: Those of other releases, which some students may have.
        seeds: Seeds of the hidden cases.
        remarks: What was found while the files were read.
        known: Verdicts that still hold, by exercise.
        is_unsafe: Whether the code may run without a sandbox.
        limits: Time limits of its code.
        bounds: What judging it may take.
        key: What its grade depends on; a course of the same version has to grade it.
    """

    unit: str
    student: str
    raw: bytes | None
    release: str
    seeds: tuple[int, ...]
    other_releases: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    known: Mapping[str, Verdict] = field(default_factory=dict)
    is_unsafe: bool = False
    limits: Limits = field(default_factory=Limits)
    bounds: bounded_process.Bounds = field(default_factory=bounded_process.Bounds)
    key: Key = field(default_factory=grade_key)


@dataclass(frozen=True)
class GradedSubmission:
    """The result of a submission and its notebook with outputs and verdicts, as JSON.

    It crosses to the grading process as JSON too: what has read a student's bytes sends no objects.

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


def grade(submission: Submission) -> GradedSubmission:
    """Grade one submission in a process of its own, which is thrown away.

    Raises:
        GradingError: If this process cannot grade any submission: it has another version of the
            course, no sandbox starts, or a check cannot make its cases.
        SandboxGoneError: If the sandbox ended meanwhile.
    """
    if submission.key.course != course_version.of_course():
        raise GradingError(
            f"The course on {platform.node()} is not the one with which this run began: close "
            "JupyterLab after a change and start it anew; on a cluster, install the same version."
        )
    sandbox = process_sandbox.ready(submission.is_unsafe)
    release = nbformat.reads(submission.release, as_version=4)
    for question in questions(release):
        if question.exercise not in submission.known:  # measured here, once for all submissions
            referee.prepare(question.exercise, submission.seeds)
    try:
        message = bounded_process.call(partial(_judged, submission, sandbox), submission.bounds)
        graded = GradedSubmission.from_bytes(message)
    except bounded_process.StoppedError as stopped:
        why = f"It was not graded: {stopped}."
        graded = ungraded(submission, why, is_final=stopped.is_final)
    if not sandbox.is_open:
        raise SandboxGoneError("the sandbox ended while it was graded")
    return graded


def _judged(submission: Submission, sandbox: Sandbox) -> bytes:
    """The graded submission; what is wrong with the grader itself is left to a person."""
    try:
        return _judge(submission, sandbox).to_bytes()
    except MemoryError:
        raise
    except Exception as error:
        why = f"It was not graded ({type(error).__name__}: {str(error)[:300]})."
        return ungraded(submission, why, is_final=False).to_bytes()


def _judge(submission: Submission, sandbox: Sandbox) -> GradedSubmission:
    release = nbformat.reads(submission.release, as_version=4)
    others = [nbformat.reads(text, as_version=4) for text in submission.other_releases]
    merged = intake.merge(submission.raw, release, others)
    if merged.is_foreign:
        return ungraded(submission, merged.needs_human[0], *merged.remarks)
    session = Session(sandbox, submission.limits)
    verdicts = referee.grade_notebook(
        session, merged.notebook, release, submission.seeds, submission.known
    )
    answers = {cell_key(cell): cell.source for cell in merged.notebook.cells if is_solution(cell)}
    result = SubmissionResult(
        unit=submission.unit,
        student=submission.student,
        verdicts=tuple(verdicts),
        remarks=(
            *submission.remarks,
            *merged.remarks,
            *remarks.on_stopped_cells(merged.notebook, release),
            *remarks.on_stopped_answers(verdicts),
        ),
        needs_human=merged.needs_human,
        answers=answers,
        cpu_seconds=session.cpu_seconds,
    )
    return GradedSubmission(result, nbformat.writes(_with_remarks(merged.notebook, result)))


def ungraded(
    submission: Submission, why: str, *remarks: str, is_final: bool = True
) -> GradedSubmission:
    """No points yet for a submission that a person has to look at first.

    Args:
        submission: The submission.
        why: One sentence for that person.
        remarks: What else was found.
        is_final: Whether the next run need not try again.
    """
    notebook = nbformat.reads(submission.release, as_version=4)
    verdicts = []
    for question in questions(notebook):
        verdicts.append(referee.not_judged(question))
        notebook.cells[question.position].outputs = outputs.of_verdict(verdicts[-1])
    result = SubmissionResult(
        unit=submission.unit,
        student=submission.student,
        verdicts=tuple(verdicts),
        remarks=(*submission.remarks, *remarks),
        needs_human=(why,),
    )
    notebook = _with_remarks(notebook, result)
    return GradedSubmission(result, nbformat.writes(notebook), is_final)


def _with_remarks(notebook: NotebookNode, result: SubmissionResult) -> NotebookNode:
    """Insert the remarks as the first cell, where graders and students read them."""
    lines = [*(f"**A person will look at this:** {why}" for why in result.for_a_person)]
    lines += result.remarks
    if lines:
        safe = (" ".join(line.split()).replace("<", "‹") for line in lines)  # no tag, no comment
        text = "\n".join(["**Remarks of the grader**", "", *(f"- {line}" for line in safe)])
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text, id=REMARKS_CELL))
    return notebook
