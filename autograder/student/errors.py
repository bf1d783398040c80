"""What a command says to the person at the desk: a line of progress, or why it stops."""


class CommandError(Exception):
    """One sentence for the person at the desk: what was wanted, what came, what to do."""


def say(line: str) -> None:
    """One line that is seen at once, also through a pipe."""
    print(line, flush=True)
