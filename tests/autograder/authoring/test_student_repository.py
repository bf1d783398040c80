"""The students' repository holds the bundle and no more, and its notebooks run in any folder."""

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement

from autograder.authoring import publishing
from autograder.authoring.publishing import git, student_repository
from autograder.authoring.student_files import INSTALL, files_for_students
from autograder.grading.intake.merge import merge
from tests.notebooks.filling import ROOT, UNITS

REPO = "somebody/course"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("students") / "repository"
    return student_repository(ROOT, folder, REPO)


@pytest.fixture(scope="module")
def notebooks(repository):
    return {
        unit: nbformat.read(repository / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
        for unit in UNITS
    }


def test_it_has_the_files_of_the_bundle_and_what_to_ignore(repository):
    tracked = set(git(repository, "ls-files").splitlines())
    assert tracked == {name for name, _ in files_for_students(ROOT)} | {".gitignore"}
    assert git(repository, "status", "--porcelain", "--ignored") == ""
    for name, content in files_for_students(ROOT):
        if name != "README.md" and not name.endswith(".ipynb"):
            assert (repository / name).read_bytes() == content


@pytest.mark.parametrize("unit", UNITS)
def test_a_notebook_is_the_release_and_the_cell_that_installs(notebooks, unit):
    release = nbformat.read(ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
    title, install, *others = notebooks[unit].cells
    assert [title, *others] == release.cells
    assert f"https://github.com/{REPO}" in install.source


def test_a_notebook_that_is_handed_in_from_there_is_graded_without_a_remark(notebooks):
    unit = UNITS[1]
    release = nbformat.read(ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
    merged = merge(nbformat.writes(notebooks[unit]).encode(), release)
    assert (merged.remarks, merged.needs_human, merged.is_foreign) == ((), (), False)


def test_readme_has_badges_and_a_link_to_colab_for_each_unit(repository):
    text = (repository / "README.md").read_text("utf-8")
    for place in ("codespaces.new", "mybinder.org/v2/gh"):
        assert f"https://{place}/{REPO}" in text
    start = re.escape(f"https://colab.research.google.com/github/{REPO}/blob/main/")
    assert re.findall(rf"\({start}notebooks/(\w+)/\1\.ipynb\)", text) == UNITS


def test_what_has_not_changed_makes_no_commit_and_what_has_makes_one(tmp_path):
    folder = student_repository(ROOT, tmp_path / "repository", REPO)
    student_repository(ROOT, folder, REPO)
    assert git(folder, "rev-list", "--count", "HEAD") == "1"
    student_repository(ROOT, folder, "somebody/else")
    assert git(folder, "rev-list", "--count", "HEAD") == "2"


@pytest.mark.parametrize("repo", ["", "course", "https://github.com/a/b", "a/b/c", 'a/b"; rm'])
def test_without_owner_and_name_it_says_what_was_wanted(capsys, repo):
    assert publishing.main(["repository", repo]) == 1
    assert "REPO=owner/name" in capsys.readouterr().err


def requirements(name):
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return {each.name: each.specifier for each in map(Requirement, filter(is_requirement, lines))}


def is_requirement(line):
    return bool(line) and not line.startswith("#")


def test_hosted_notebooks_get_ranges_that_hold_what_was_tried_and_any_torch():
    hosted, pinned = requirements("requirements-hosted.txt"), requirements("requirements.txt")
    assert str(hosted.pop("torch")) == ""
    for name, allowed in hosted.items():
        (tried,) = pinned[name]
        assert {each.operator for each in allowed} == {">=", "<"}
        assert tried.version in allowed, name


STUDENT = """
import json
from autograder import check, original, progress
import course_utils, torch
print(course_utils.__file__)
def matmul_flops(rows, inner, columns):
    return {"forward": 2 * rows * inner * columns}
check("u01-matmul-flops", matmul_flops)
original("u01-matmul-flops")
print(progress())
json.dump(torch.__version__, open("torch.json", "w"))
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A Python with the packages that notebooks need, and without the course."""
    folder = tmp_path_factory.mktemp("elsewhere") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/*/site-packages")
    # Packages of a folder that is named so are found, and its own `.pth` files are not read.
    (packages / "theirs.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


@pytest.mark.parametrize("place", ["an empty folder", "the folder of a unit in a clone"])
def test_in_any_folder_it_gets_the_course_and_keeps_progress(
    elsewhere, repository, tmp_path, place
):
    folder = tmp_path
    if place != "an empty folder":
        git(tmp_path, "clone", "--quiet", repository, tmp_path / "clone")
        folder = tmp_path / "clone" / "notebooks" / UNITS[1]
    for left in elsewhere.parents[1].glob("lib/*/site-packages/course.pth"):
        left.unlink()
    cell = INSTALL.format(url=repository, torch="2.13.0")
    environ = {"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "HOME": str(tmp_path)}
    done = [
        subprocess.run(
            [elsewhere, "-P", "-c", code],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        for code in (cell + STUDENT, STUDENT)  # the second time, another process has it too
    ]
    for each in done:
        assert each.returncode == 0, each.stderr
        assert "def matmul_flops" in each.stdout
        assert "01 How much work is a transformer?" in each.stdout
    home = tmp_path if folder == tmp_path else tmp_path / "clone"
    course = home if folder != tmp_path else home / "course"
    assert f"{course}/course_utils/__init__.py" in done[0].stdout
    kept = json.loads((home / "progress.json").read_text())
    assert kept["exercises"]["u01-matmul-flops"]["points"] == 0
    assert json.loads((folder / "torch.json").read_text()) == _torch_here()
    if course == home:
        assert git(home, "status", "--porcelain").split() == [
            "??",
            f"notebooks/{UNITS[1]}/torch.json",
        ]


def _torch_here():
    code = "import torch; print(torch.__version__)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_where_the_course_is_installed_the_cell_does_nothing(repository, tmp_path):
    cell = INSTALL.format(url="no/such/place", torch="2.13.0")
    done = subprocess.run(
        [sys.executable, "-c", cell], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr, list(Path(tmp_path).iterdir())) == ("", "", [])
