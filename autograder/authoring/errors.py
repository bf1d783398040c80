"""What stops a build."""

from autograder.commands import CommandError


class BuildError(CommandError):
    """A build that must not go on; the message says what to do."""


class MasterError(BuildError):
    """A master that cannot be built; the message lists every reason."""
