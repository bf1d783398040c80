"""What students get runs by itself and holds nothing that is not for them."""

import re
import subprocess
import sys
import zipfile

import pytest

from autograder.authoring import master
from autograder.authoring.bundle import NAME, bundle
from tests.notebooks.filling import ROOT, UNITS


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    with zipfile.ZipFile(bundle(ROOT, folder)) as archive:
        archive.extractall(folder)
    return folder / NAME


def texts(folder):
    return {path: path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}


def test_no_solution_test_or_grading_is_in_it(unpacked):
    parts = {part for path in texts(unpacked) for part in path.relative_to(unpacked).parts}
    assert not parts & {"solutions", "tests", "grading", "authoring", "gradebook.db", "work"}
    assert {"notebooks", "autograder", "course_utils", "Makefile", "README.md", "LICENSE"} <= parts


@pytest.mark.parametrize("unit", UNITS)
def test_no_solution_body_or_hidden_test_is_in_a_notebook(unpacked, unit):
    solved = master.read(ROOT / "solutions" / unit / f"{unit}.py").notebook
    released = (unpacked / "notebooks" / unit / f"{unit}.ipynb").read_text(encoding="utf-8")
    for secret in master.solution_bodies(solved) + master.hidden_tests(solved):
        assert secret not in released
        assert "END HIDDEN" not in released


def test_every_link_of_its_readme_leads_somewhere(unpacked):
    text = (unpacked / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert len(links) >= len(UNITS)
    assert [link for link in links if not (unpacked / link).exists()] == []
    assert "## For students" in text
    assert "MIT, see `LICENSE`" in text
    assert "nstructors" not in text.split("## Licence")[0].split("## For students")[1]


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
    code = "from autograder import check; check('u01-matmul-flops', lambda *sizes: 1)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=unpacked, capture_output=True, text=True, check=True
    )
    assert "0 of 2 points" in done.stdout
