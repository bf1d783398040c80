"""Describe which layers protect this machine from students' code."""

import platform

from autograder.grading.sandbox import integrity, seccomp

SANDBOXED = (
    "Students' code runs in a sandbox: no network, read-only files, its own processes and folder, "
    "limits on time, memory, processes and output."
)
UNSAFE = (
    "UNSAFE: students' code runs with your rights, your files and your network; only time and the "
    "size of files are limited."
)


def describe(is_unsafe: bool) -> list[str]:
    """A line on the sandbox, and one for each layer that this machine lacks."""
    lines = [UNSAFE if is_unsafe else SANDBOXED]
    if not seccomp.is_supported():
        lines.append(
            "Missing: libseccomp 2.5.2 or newer (`apt-get install libseccomp2`), which filters "
            "system calls. A submission that finds its socket to the grader can forge what is "
            "observed of it."
        )
    if not integrity.has_version_tags():
        lines.append(
            f"Missing in Python {platform.python_version()}: the version tags of dictionaries. "
            "What a submission replaces while it is observed, and puts back in time, is not seen."
        )
    return lines
