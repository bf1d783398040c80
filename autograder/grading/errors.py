"""What stops a grading run, in one sentence that says what to do, or a single submission."""


class GradingError(RuntimeError):
    """A run that must not go on."""


class SandboxGoneError(RuntimeError):
    """The sandbox ended while a submission was in it; what came of that is not to be trusted."""


class WorkerDiedError(RuntimeError):
    """A grading process ended before it had answered."""
