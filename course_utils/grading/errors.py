"""What stops a grading run, in one sentence that says what to do."""


class GradingError(RuntimeError):
    """A run that must not go on."""
