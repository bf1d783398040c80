"""A version is tagged where all files agree on it; its archives have the right checksums."""

import hashlib
import subprocess
import zipfile

import pytest

from autograder.authoring.publishing import git
from autograder.authoring.version import complaints, notes, pack
from tests.notebooks.filling import ROOT

FILES = {
    "pyproject.toml": '[project]\nversion = "1.2.0"\n',
    "course_utils/__init__.py": '__version__ = "1.2.0"\n',
    "CITATION.cff": "version: 1.2.0\n",
    "README.md": "To cite: *A course*, version 1.2.0, 2026.\n",
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n## 1.2.0\n\n- a\n- b\n\n## 1.1.0\n\n- old\n",
    "docs/versions.md": "# Versions\n\n## Tried\n\n| Python | 3.12 |\n",
}


@pytest.fixture
def course(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(course):
    git(course, "add", "--all")
    name = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
    git(course, *name, "commit", "--quiet", "--message", "A change")


def test_where_all_agrees_nothing_is_in_the_way(course):
    assert list(complaints(course)) == []


@pytest.mark.parametrize("name", [name for name in FILES if "version" in FILES[name]][:4])
def test_a_file_with_another_number_is_named(course, name):
    (course / name).write_text(FILES[name].replace("1.2.0", "1.3.0"))
    commit(course)
    assert any("different versions" in each and name in each for each in complaints(course))


@pytest.mark.parametrize(
    ("changelog", "says"),
    [
        ("## Unreleased\n\n- new\n\n## 1.2.0\n\n- a\n", "1 lines under `## Unreleased`"),
        ("## Unreleased\n\n## 1.1.0\n\n- old\n", "no lines under `## 1.2.0`"),
        ("## Unreleased\n\n## 1x2.0\n\n- old\n", "no lines under `## 1.2.0`"),
    ],
)
def test_the_changelog_tells_of_this_version_and_keeps_nothing_back(course, changelog, says):
    (course / "CHANGELOG.md").write_text(changelog)
    commit(course)
    (complaint,) = complaints(course)
    assert says in complaint


def test_what_is_not_committed_and_a_tag_that_is_there_are_in_the_way(course):
    git(course, "tag", "v1.2.0")
    (course / "new.txt").touch()
    uncommitted, tagged = complaints(course)
    assert "new.txt" in uncommitted
    assert "v1.2.0" in tagged


def test_notes_say_what_has_changed_and_what_was_tried(course):
    assert notes(course, "1.2.0") == (
        "# Version 1.2.0\n\n- a\n- b\n\n## Tried\n\n| Python | 3.12 |\n"
    )


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    book = tmp_path_factory.mktemp("book")
    (book / "units").mkdir()
    (book / "units" / "01.html").write_text("<p>")
    folders = [tmp_path_factory.mktemp("packed") for _ in range(2)]
    return [pack(ROOT, book, folder, "0.1.0") for folder in folders]


def test_checksums_are_those_of_the_files(packed):
    *files, sums = packed[0]
    assert [path.name for path in files] == [
        "efficient-llm-training-0.1.0.zip",
        "efficient-llm-training-book-0.1.0.zip",
        "NOTES.md",
    ]
    expected = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    lines = (line.split("  ") for line in sums.read_text().splitlines())
    assert {name: digest for digest, name in lines} == expected
    subprocess.run(["sha256sum", "--check", sums], cwd=sums.parent, check=True, capture_output=True)
    with zipfile.ZipFile(files[1]) as archive:
        assert archive.namelist() == ["efficient-llm-training-book-0.1.0/units/01.html"]


def test_the_same_files_give_the_same_checksums(packed):
    first, second = (files[-1].read_text() for files in packed)
    assert first == second


def test_the_files_of_the_course_agree_on_a_number():
    assert not any("different versions" in each for each in complaints(ROOT))
