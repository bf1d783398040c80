"""What do students get? One archive without instructor notebooks, tests or grading.

`make student-bundle` writes it: the releases and what is needed to run them. The same files give
the same bytes.
"""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from course_utils import __version__

ROOT = Path(__file__).parents[2]
NAME = f"efficient-llm-training-{__version__}"
TOP_LEVEL = ("README.md", "LICENSE", "Makefile", "requirements.txt", "pyproject.toml")
FOR_STAFF = ("authoring", "grading")
DATE = (1980, 1, 1, 0, 0, 0)


def bundle(root: Path, target: Path) -> Path:
    """Write the archive into a folder and give its path.

    Args:
        root: The full repository, built.
        target: Folder for the archive.
    """
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{NAME}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(_files(root)):
            entry = zipfile.ZipInfo(f"{NAME}/{file.relative_to(root).as_posix()}", DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return path


def _files(root: Path) -> Iterator[Path]:
    yield from (root / name for name in TOP_LEVEL)
    yield from root.glob("notebooks/*/*.ipynb")
    for file in (root / "course_utils").rglob("*"):
        room = file.relative_to(root / "course_utils").parts[0]
        if file.suffix in (".py", ".json") and room not in FOR_STAFF:
            yield file


def main() -> int:
    """Write the archive into `dist/` and say where it is."""
    path = bundle(ROOT, ROOT / "dist")
    print(f"For students: {path.relative_to(ROOT)} ({path.stat().st_size / 2**10:.0f} KiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
