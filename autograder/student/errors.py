"""What a command tells its user: a line of progress, or why it stops."""


class CommandError(Exception):
    """Stops a command, with one sentence for its user: wanted, got, what to do."""


def say(line: str) -> None:
    """Print a line at once, also through a pipe."""
    print(line, flush=True)
