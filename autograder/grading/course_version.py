"""The version of the course's packages: a hash of their files."""

import hashlib
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2]
PACKAGES = ("autograder", "course_utils")


@cache
def of_course() -> str:
    """One hash over both packages, which hold checks, judges and the grader."""
    digest = hashlib.sha256()
    files = [file for name in PACKAGES for file in (SOURCE / name).rglob("*.*")]
    for path in sorted(file for file in files if file.suffix in (".py", ".json")):
        digest.update(path.relative_to(SOURCE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
