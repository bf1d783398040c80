"""What stops a build."""


class BuildError(RuntimeError):
    """A build that must not go on; the message says what to do."""


class MasterError(ValueError):
    """A master that cannot be built; the message lists every reason."""
