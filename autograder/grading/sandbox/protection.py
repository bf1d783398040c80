"""Which layers hold between students' code and everything else, in words?"""

import platform

from autograder.grading.sandbox import integrity, seccomp

CLOSED = (
    "Students' code runs in a closed room: no network, read-only files, its own processes and "
    "folder, bounds on time, memory, processes and output."
)
OPEN = (
    "UNSAFE: students' code runs with your rights, your files and your network; only time and the "
    "size of files are bounded."
)


def sentences(is_unsafe: bool) -> list[str]:
    """A line on the room, and one for each layer that this machine lacks."""
    lines = [OPEN if is_unsafe else CLOSED]
    if not seccomp.are_known():
        lines.append(
            f"Missing on {platform.machine()}: the filter of system calls. A submission that finds "
            "the descriptor of its talk with the grader can forge what is observed of it."
        )
    if not integrity.counts_changes():
        lines.append(
            f"Missing in Python {platform.python_version()}: the count of changes. What a "
            "submission replaces while it is observed, and puts back in time, is not seen."
        )
    return lines
