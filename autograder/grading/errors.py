"""Errors that stop a grading run, or the grading of one submission."""

from autograder.commands import CommandError


class GradingError(CommandError):
    """The run cannot go on; the message is one sentence that says what to do."""


class SandboxGoneError(RuntimeError):
    """The sandbox ended during a submission, so that its verdicts cannot be trusted."""
