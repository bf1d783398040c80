"""Describe which layers protect this machine from students' code."""

from autograder.grading.sandbox import seccomp

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
            "system calls: a second wall around memory, mounts and namespaces."
        )
    return lines
