"""Which files differ from the last commit, and what ruff says of them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

CHANGED = (
    ("git", "diff", "--name-only", "--relative", "--diff-filter=d", "HEAD"),
    ("git", "ls-files", "--others", "--exclude-standard"),
)
RUFF = (sys.executable, "-m", "ruff")
RULES_AND_LAYOUT = (("check",), ("format", "--check"))


def changed_files(root: Path) -> list[Path]:
    """Files of code that are new, or not as they were committed; none outside of git."""
    listed = [line for command in CHANGED for line in _lines(root, command)]
    return [root / name for name in listed if name.endswith(".py")]


def style(root: Path, files: Sequence[Path]) -> Iterator[str]:
    """What is not as ruff wants it; types are left to `make lint`."""
    if not files:
        return
    names = [str(file.relative_to(root)) for file in files]
    for what in RULES_AND_LAYOUT:
        said = "\n".join(_lines(root, [*RUFF, *what, "--output-format=json", *names]))
        for each in json.loads(said):
            name = Path(each["filename"]).relative_to(root)
            yield f"{name}, line {each['location']['row']}: {each['message']} ({each['code']})."


def _lines(root: Path, command: Sequence[str]) -> list[str]:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()
