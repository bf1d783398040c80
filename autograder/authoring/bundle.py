"""What do students get? One archive without instructor notebooks, tests or grading.

`make student-bundle` writes it: the releases and what is needed to run them. The same files give
the same bytes. Its name has the commit, so that two archives of one version are told apart.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from autograder.files import write_zip
from course_utils import __version__

ROOT = Path(__file__).parents[2]
NAME = f"efficient-llm-training-{__version__}"
AS_THEY_ARE = (
    ".devcontainer/devcontainer.json",
    ".dockerignore",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "nbgrader_config.py",
    "requirements-hosted.txt",
    "requirements.txt",
    "pyproject.toml",
    "docs/hub.md",
    "docs/lectures.md",
    "docs/places.md",
    "docs/privacy.md",
    "docs/torchrun.md",
)
SUFFIXES = (".py", ".csv", ".json", ".zip", ".js", ".css")
STAFF_ROOMS = ("authoring", "book", "exercises", "grading", "mistake_file.py")
FOR_STAFF = tuple(f"autograder/{room}" for room in STAFF_ROOMS)
STAFF_SECTIONS = r"## For instructors\n.*(?=## Licence)"


def bundle(root: Path, target: Path, name: str = NAME) -> Path:
    """Write the archive into a folder and give its path.

    Args:
        root: The full repository, built.
        target: Folder for the archive.
        name: Of the archive, and of the one folder in it.
    """
    files = ((f"{name}/{file}", content) for file, content in files_for_students(root))
    return write_zip(target / f"{name}.zip", files)


def name_with_commit(root: Path) -> str:
    """A name that tells archives of one version apart: by the commit, and what is not committed.

    Args:
        root: The full repository; where git knows nothing of it, the version has to do.
    """
    command = ["git", "-C", str(root), "describe", "--always", "--exclude=*", "--dirty=-changed"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        said = ""
    return f"{NAME}-{said}" if said else NAME


def files_for_students(root: Path) -> Iterator[tuple[str, bytes]]:
    """Path from the course's folder and content of each file that students get, in order.

    Args:
        root: The full repository, built.
    """
    for file in sorted(_files(root)):
        content = _for_students(file) if file.name == "README.md" else file.read_bytes()
        yield file.relative_to(root).as_posix(), content


def _for_students(readme: Path) -> bytes:
    """The README without what only the full repository has."""
    text = readme.read_text(encoding="utf-8")
    return re.sub(STAFF_SECTIONS, "", text, flags=re.DOTALL).encode()


def _files(root: Path) -> Iterator[Path]:
    yield from (root / name for name in ("README.md", *AS_THEY_ARE))
    yield from root.glob("notebooks/*/*.ipynb")
    for file in (*root.glob("autograder/**/*"), *root.glob("course_utils/**/*")):
        if file.suffix in SUFFIXES and not _is_for_staff(root, file):
            yield file


def _is_for_staff(root: Path, file: Path) -> bool:
    """Whether a file is no student's: of authoring, of grading or of a check."""
    package, room, *_ = file.relative_to(root).parts
    return f"{package}/{room}" in FOR_STAFF


def main() -> int:
    """Write the archive into `dist/` and say where it is."""
    path = bundle(ROOT, ROOT / "dist", name_with_commit(ROOT))
    print(f"For students: {path.relative_to(ROOT)} ({path.stat().st_size / 2**10:.0f} KiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
