"""What do students get? The releases and what is needed to run them.

No instructor notebooks, tests or grading. Where notebooks are hosted, as on Colab, they begin with
a cell that gets the course where it is missing, and the README has badges.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

AS_THEY_ARE = (
    ".devcontainer/devcontainer.json",
    ".dockerignore",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "nbgrader_config.py",
    "requirements-hosted.txt",
    "requirements.txt",
    "pyproject.toml",
    *(f"docs/{name}.md" for name in ("hub", "lectures", "places", "privacy", "torchrun")),
)
SUFFIXES = (".py", ".csv", ".json", ".zip", ".js", ".css")
STAFF_ROOMS = ("authoring", "book", "exercises", "grading", "mistake_file.py")
FOR_STAFF = tuple(f"autograder/{room}" for room in STAFF_ROOMS)
STAFF_SECTIONS = re.compile(rb"## For instructors\n.*(?=## Licence)", re.DOTALL)

HOST = "https://github.com"
COLAB = "https://colab.research.google.com/github/{}/blob/main/"
BADGES = """\
[![Open in Codespaces](https://github.com/codespaces/badge.svg)](https://codespaces.new/{0}) \
[![Open in Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/{0}/main\
?urlpath=lab/tree/work/00_start_here/00_start_here.ipynb)

These badges open the course in a codespace or at a Binder. For Colab, follow the link of a unit in
the table; your own VS Code works too. There the first cell of a notebook gets the course and leaves
torch as it is; points of checks are kept in `progress.json` beside your notebook. Colab and Binder
forget it all: download your notebook before you leave."""
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


def files_for_students(root: Path) -> Iterator[tuple[str, bytes]]:
    """Path from the course's folder and content of each file that students get, in order.

    Args:
        root: The full repository, built.
    """
    for file in sorted(_files(root)):
        content = file.read_bytes()
        if file.name == "README.md":
            content = STAFF_SECTIONS.sub(b"", content)
        yield file.relative_to(root).as_posix(), content


def _files(root: Path) -> Iterator[Path]:
    yield from (root / name for name in AS_THEY_ARE)
    yield from root.glob("notebooks/*/*.ipynb")
    for file in (*root.glob("autograder/**/*"), *root.glob("course_utils/**/*")):
        room = "/".join(file.relative_to(root).parts[:2])
        if file.suffix in SUFFIXES and room not in FOR_STAFF:
            yield file


def files_for_hosts(root: Path, repo: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file of the students' repository.

    Args:
        root: The full repository, built.
        repo: Where it will be found: the owner and the name, with a slash.
    """
    torch = (root / "requirements.txt").read_text("utf-8").partition("torch==")[2].split()[0]
    cell = INSTALL.format(url=f"{HOST}/{repo}", torch=torch)
    for name, content in files_for_students(root):
        if name == "README.md":
            yield name, with_badges(content.decode(), repo).encode()
        elif name.endswith(".ipynb"):
            yield name, with_install_cell(content.decode(), cell).encode()
        else:
            yield name, content
    yield ".gitignore", (root / ".gitignore").read_bytes()


def with_badges(readme: str, repo: str) -> str:
    """The README with badges under its title, and a link to Colab for each unit."""
    title, rest = readme.split("\n", 1)
    row = re.compile(r"^(\| \[\d\d\]\((notebooks/[^)]+)\))", re.MULTILINE)
    linked = row.sub(rf"\1, [Colab]({COLAB.format(repo)}\2)", rest)
    return f"{title}\n\n{BADGES.format(repo)}\n{linked}"


def with_install_cell(notebook: str, source: str) -> str:
    """The notebook with the cell that gets the course, folded, after its title."""
    content = nbformat.reads(notebook, as_version=4)
    cell = nbformat.v4.new_code_cell(source.strip(), id="install")
    cell.metadata = nbformat.from_dict({"jupyter": {"source_hidden": True}})
    content.cells.insert(1, cell)
    return f"{nbformat.writes(content)}\n"
