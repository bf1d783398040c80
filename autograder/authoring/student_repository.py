"""A git repository for students: the files of the student bundle, ready for hosted notebooks.

`make student-repository REPO=owner/name` writes it into `dist/student-repository`. Its notebooks
begin with a cell that gets the course where it is missing, its README has badges. A second call
adds a commit, so that students can pull what has changed.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

from autograder.authoring.bundle import ROOT, files_for_students
from course_utils import __version__

HOST = "https://github.com"
BADGES = (
    ("Open in Codespaces", "https://github.com/codespaces/badge.svg", "https://codespaces.new/{}"),
    (
        "Open in Binder",
        "https://mybinder.org/badge_logo.svg",
        "https://mybinder.org/v2/gh/{}/main?urlpath=lab/tree/work/00_start_here/00_start_here.ipynb",
    ),
)
COLAB = "https://colab.research.google.com/github/{}/blob/main/"
HERE = """\
These badges open the course in a codespace or at a Binder. For Colab, follow the link of a unit in
the table; your own VS Code works too. There the first cell of a notebook gets the course and leaves
torch as it is; points of checks are kept in `progress.json` beside your notebook. Colab and Binder
forget it all: download your notebook before you leave."""
IGNORED = (
    "/.venv*",
    "/work/",
    "/course/",
    "progress*.json",
    ".progress.json.lock",
    "__pycache__/",
    ".ipynb_checkpoints/",
)
# Who commits; what an instructor commits on top has their own name.
AUTHOR = ("-c", "user.name=The authors of the course", "-c", "user.email=course@localhost")

INSTALL = """\
# Gets the course where it is missing, as on Colab and in VS Code. The torch that is here stays.
import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

if None in map(importlib.util.find_spec, ("autograder", "anywidget", "safetensors")):
    home = next((each for each in Path.cwd().parents if (each / "autograder").is_dir()), Path.cwd())
    course = home if (home / "autograder").is_dir() else home / "course"
    if not course.exists():
        subprocess.run(["git", "clone", "--quiet", "--depth=1", "{url}", course], check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "-r", course / "requirements-hosted.txt"], check=True)
    # The next cell looks for these two; nothing here runs them.
    subprocess.run([*pip, "--no-deps", "jupyterlab", "nbgrader"], check=True)
    # For this process, and for those that it starts.
    sys.path.insert(0, str(course))
    Path(sysconfig.get_path("purelib"), "course.pth").write_text(str(course))
    importlib.invalidate_caches()
    from autograder import progress_file

    if progress_file.find() is None:
        progress_file.create(home)
    print("The course was tried with torch {torch}; with another one, some counts may differ.")
"""


def student_repository(root: Path, target: Path, repo: str) -> Path:
    """Write the repository, with a commit of what is new, and give its folder.

    Args:
        root: The full repository, built.
        target: Its folder; what is in it is replaced, but for its history.
        repo: Where it will be found: the owner and the name, with a slash.
    """
    target.mkdir(parents=True, exist_ok=True)
    for entry in target.iterdir():
        if entry.is_dir() and entry.name != ".git":
            shutil.rmtree(entry)
        elif entry.name != ".git":
            entry.unlink()
    for name, content in files(root, repo):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
    _git(target, "init", "--quiet", "--initial-branch=main")
    _git(target, "add", "--all", "--force")
    if _git(target, "status", "--porcelain"):
        _git(target, *AUTHOR, "commit", "--quiet", "--message", f"Version {__version__}")
    return target


def files(root: Path, repo: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each of its files.

    Args:
        root: The full repository, built.
        repo: Owner and name.
    """
    pins = (root / "requirements.txt").read_text("utf-8")
    torch = re.search(r"^torch==(\S+)", pins, re.MULTILINE)
    assert torch
    cell = INSTALL.format(url=f"{HOST}/{repo}", torch=torch[1])
    for name, content in files_for_students(root):
        if name == "README.md":
            yield name, with_badges(content.decode(), repo).encode()
        elif name.endswith(".ipynb"):
            yield name, with_install_cell(content.decode(), cell).encode()
        else:
            yield name, content
    yield ".gitignore", "".join(f"{line}\n" for line in IGNORED).encode()


def with_badges(readme: str, repo: str) -> str:
    """The README with badges under its title, and a link to Colab for each unit."""
    badges = " ".join(f"[![{text}]({picture})]({to.format(repo)})" for text, picture, to in BADGES)
    title, rest = readme.split("\n", 1)
    row = re.compile(r"^(\| \[\d\d\]\((notebooks/[^)]+)\))", re.MULTILINE)
    linked = row.sub(rf"\1, [Colab]({COLAB.format(repo)}\2)", rest)
    return f"{title}\n\n{badges}\n\n{HERE}\n{linked}"


def with_install_cell(notebook: str, source: str) -> str:
    """The notebook with the cell that gets the course, folded, after its title."""
    content = nbformat.reads(notebook, as_version=4)
    cell = nbformat.v4.new_code_cell(source.strip(), id="install")
    cell.metadata = nbformat.from_dict({"jupyter": {"source_hidden": True}})
    content.cells.insert(1, cell)
    return f"{nbformat.writes(content)}\n"


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(arguments: list[str] | None = None) -> int:
    """Write the repository into `dist/student-repository` and say where it is."""
    repo, *_ = [*(sys.argv[1:] if arguments is None else arguments), ""]
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        print(
            f"student-repository: wanted the owner and the name of the repository on {HOST}, "
            f"as in `make student-repository REPO=owner/name`, got {repo!r}.",
            file=sys.stderr,
        )
        return 1
    folder = student_repository(ROOT, ROOT / "dist" / "student-repository", repo)
    print(f"For students: {folder.relative_to(ROOT)}, with a commit; push it to {HOST}/{repo}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
