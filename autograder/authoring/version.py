"""`make version`: tag what is committed as a version, and write its archives and their checksums.

The number stands in four files and is changed there by hand, with the changelog; then `make build`
and a commit. This command changes no file: it refuses, or tags and packs.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring.publishing import bundle
from autograder.commands import ROOT, CommandError, git, stops_with_a_sentence
from autograder.files import write_zip

STATED = {
    "pyproject.toml": r'^version = "(.+)"$',
    "course_utils/__init__.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "README.md": r", version (\S+), \d{4}\.$",
}
PAGE = Path("docs", "versions.md")


def complaints(root: Path) -> Iterator[str]:
    """Why the course in a folder cannot become a version; nothing if it can.

    Args:
        root: The full repository.
    """
    numbers = {name: _stated(root / name, pattern) for name, pattern in STATED.items()}
    if len(set(numbers.values())) > 1:
        yield f"The files name different versions: {numbers}. Write one number into all of them."
    version = numbers["pyproject.toml"]
    if not changes(root, version):
        yield f"CHANGELOG.md has no lines under `## {version}`: write what has changed there."
    if left := changes(root, "Unreleased"):
        lines = len(left.splitlines())
        yield f"CHANGELOG.md has {lines} lines under `## Unreleased`: move them to `## {version}`."
    if changed := git(root, "status", "--porcelain"):
        yield f"Not committed: {', '.join(changed.split(chr(10)))}. Commit first, or undo it."
    if git(root, "tag", "--list", f"v{version}"):
        yield f"There is a tag v{version} already: a version is tagged once."


def changes(root: Path, title: str) -> str:
    """The lines of a part of the changelog; empty if there is none."""
    text = (root / "CHANGELOG.md").read_text("utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def notes(root: Path, version: str) -> str:
    """What readers of a version want to know: what has changed, and where it was tried."""
    tried = (root / PAGE).read_text("utf-8").partition("## Tried\n")[2]
    return f"# Version {version}\n\n{changes(root, version)}\n\n## Tried\n{tried}"


def pack(root: Path, book: Path, target: Path, version: str) -> list[Path]:
    """Write the archives, the notes, and `SHA256SUMS` over them; the same files, the same bytes.

    Args:
        root: The full repository, built.
        book: The built book.
        target: Folder for them.
        version: The number.
    """
    archive = bundle(root, target)
    name = archive.stem.replace(version, f"book-{version}")
    pages = sorted(path for path in book.rglob("*") if path.is_file())
    files = ((f"{name}/{path.relative_to(book).as_posix()}", path.read_bytes()) for path in pages)
    readable = target / "NOTES.md"
    readable.write_text(notes(root, version), "utf-8")
    packed = [archive, write_zip(target / f"{name}.zip", files), readable]
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in packed)
    (target / "SHA256SUMS").write_text("".join(sums), "utf-8")
    return [*packed, target / "SHA256SUMS"]


def _stated(path: Path, pattern: str) -> str:
    found = re.search(pattern, path.read_text("utf-8"), re.MULTILINE)
    return found[1] if found else ""


@stops_with_a_sentence
def main() -> int:
    """Say what is in the way; or build the book, pack all, tag, and say what to publish."""
    if wrong := list(complaints(ROOT)):
        raise CommandError("\n".join(wrong))
    if subprocess.run([sys.executable, "-m", "autograder.book"], check=False).returncode:
        return 1
    version = _stated(ROOT / "pyproject.toml", STATED["pyproject.toml"])
    target = ROOT / "dist" / f"v{version}"
    packed = pack(ROOT, ROOT / "dist" / "book", target, version)
    git(ROOT, "tag", "--annotate", f"v{version}", "--message", f"Version {version}")
    print(f"Tagged v{version}. In {target.relative_to(ROOT)}:")
    print("\n".join(f"  {path.name} ({path.stat().st_size / 2**20:.1f} MiB)" for path in packed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
