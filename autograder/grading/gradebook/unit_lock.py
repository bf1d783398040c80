"""One process at a time grades or releases a unit."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from autograder.grading.errors import GradingError


@contextlib.contextmanager
def lock(root: Path, unit: str) -> Iterator[None]:
    """Keep other processes from grading or releasing a unit.

    Raises:
        GradingError: If another process is grading it.
    """
    path = root / "grading" / f"{unit}.lock"
    file_lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file_lock.acquire(timeout=0)
    except Timeout:
        raise GradingError(
            f"{unit} is being graded by another process: wait until it is done, or stop it."
        ) from None
    except OSError as error:
        raise GradingError(f"{path.parent} cannot be written ({error.strerror}).") from None
    try:
        yield
    finally:
        file_lock.release()
