"""What students get runs by itself and holds nothing that is not for them."""

import re
import subprocess
import sys
import zipfile

import nbformat
import pytest

from autograder.authoring.publishing import NAME, bundle, name_with_commit
from tests.autograder.secrets import (
    RECORDED,
    TEACHES,
    model_trees,
    said_of,
    secrets_of,
    syntax_trees,
    words,
)
from tests.notebooks.filling import ROOT, UNITS, WITH_EXERCISES


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    with zipfile.ZipFile(bundle(ROOT, folder)) as archive:
        archive.extractall(folder)
    return folder / NAME


def texts(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {each: each.read_text("utf-8") for each in files if each.suffix != ".zip"}


@pytest.fixture(scope="module")
def trees_of_students(unpacked):
    """The syntax trees of all functions that a student has, but for what the course teaches."""
    found = set()
    for path in unpacked.rglob("*.py"):
        if not TEACHES & set(path.relative_to(unpacked).parts):
            found |= set(syntax_trees(path.read_text("utf-8")))
    for path in unpacked.rglob("*.ipynb"):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                found |= set(syntax_trees(cell.source))
    return found


@pytest.mark.parametrize("exercise", RECORDED)
def test_no_model_answer_is_in_it(trees_of_students, exercise):
    assert not model_trees(exercise) & trees_of_students


def test_functions_of_notebooks_are_among_those_that_are_searched(trees_of_students):
    assert any(tree.startswith("[['rows', 'inner', 'columns']") for tree in trees_of_students)


def test_no_solution_test_or_grading_is_in_it(unpacked):
    parts = {part for path in texts(unpacked) for part in path.relative_to(unpacked).parts}
    assert not parts & {"solutions", "tests", "authoring", "book", "exercises", "grading"}
    assert not parts & {"gradebook.db", "work", "mistakes.diff", "mistake_file.py"}
    assert {"notebooks", "autograder", "course_utils", "Makefile", "README.md", "LICENSE"} <= parts


@pytest.mark.parametrize("unit", WITH_EXERCISES)
def test_no_solution_body_or_hidden_test_is_in_a_notebook(unpacked, unit):
    path = unpacked / "notebooks" / unit / f"{unit}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    released = words("\n".join(cell.source for cell in cells))
    found = [said for secret in secrets_of(unit) for said in said_of(secret) if said in released]
    assert found == []
    assert "END HIDDEN" not in path.read_text(encoding="utf-8")
    assert not any(cell.get("outputs") for cell in cells)


def test_every_link_of_its_readme_leads_somewhere(unpacked):
    text = (unpacked / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert len(links) >= len(UNITS)
    assert [link for link in links if not (unpacked / link).exists()] == []
    assert "## For students" in text
    assert "MIT, see `LICENSE`" in text
    assert "nstructors" not in text.split("## Licence")[0].split("## For students")[1]


def test_scripts_and_styles_of_widgets_are_in_it(unpacked):
    ours = [path for kind in ("*.js", "*.css") for path in (ROOT / "course_utils").rglob(kind)]
    assert ours
    assert [path for path in ours if not (unpacked / path.relative_to(ROOT)).exists()] == []


def test_same_files_give_the_same_bytes(tmp_path):
    first, second = bundle(ROOT, tmp_path / "a"), bundle(ROOT, tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


def test_commands_of_students_run_in_it_and_others_say_whom_they_are_for(unpacked):
    def run(*words):
        command = [sys.executable, "-m", "autograder", *words]
        return subprocess.run(command, cwd=unpacked, capture_output=True, text=True, check=False)

    assert run("help").returncode == 0
    refused = run("build")
    assert refused.returncode == 1
    assert "belongs to the full repository" in refused.stderr


def test_checks_work_in_it(unpacked):
    code = "from autograder import check; print(check('u01-matmul-flops', len).verdict)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=unpacked, capture_output=True, text=True, check=True
    )
    assert "0 of 2 points" in done.stdout


def test_two_archives_of_one_version_have_two_names(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    assert name_with_commit(tmp_path) == NAME
    subprocess.run([*git, "init", "-q"], check=True)
    names = []
    for number in range(2):
        (tmp_path / "file").write_text(f"{number}", "utf-8")
        subprocess.run([*git, "add", "file"], check=True)
        names += [name_with_commit(tmp_path)] * number
        subprocess.run([*git, "commit", "-qm", f"{number}"], check=True)
        names += [name_with_commit(tmp_path)]
    assert len(set(names)) == 3
    assert all(name.startswith(f"{NAME}-") for name in names)
    assert [name.endswith("-changed") for name in names] == [False, True, False]
