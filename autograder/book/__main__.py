"""`make book`: the course as a web page, in `dist/book`.

A warning of Sphinx, such as a link that leads nowhere, stops it.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from autograder.book.source import write_source
from autograder.book.tools import sphinx_python
from autograder.commands import ROOT, CommandError, stops_with_a_sentence


def build(root: Path, target: Path) -> Path:
    """Build the book and give its first page; what was in the folder is replaced.

    Args:
        root: The full repository, built.
        target: Folder for the pages.

    Raises:
        CommandError: If the tools cannot be installed, or Sphinx warns.
    """
    python = sphinx_python(root)
    with tempfile.TemporaryDirectory() as folder:
        source, pages = Path(folder, "source"), Path(folder, "pages")
        write_source(root, source)
        options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(Path(folder, "parsed"))]
        command = [str(python), "-m", "sphinx", *options, str(source), str(pages)]
        if subprocess.run(command, check=False).returncode:
            raise CommandError("Sphinx warned, see the lines above; dist/book is as it was.")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(pages, target, ignore=shutil.ignore_patterns(".buildinfo"))
    return target / "index.html"


@stops_with_a_sentence
def main() -> int:
    """Build the book into `dist/book` and say where it is."""
    page = build(ROOT, ROOT / "dist" / "book")
    size = sum(file.stat().st_size for file in page.parent.rglob("*") if file.is_file())
    print(f"The book: {page.relative_to(ROOT)} ({size / 2**20:.0f} MiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
