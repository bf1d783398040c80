"""The build writes what is generated, once, and never over a hand edit."""

import json
import shutil

import nbformat
import pytest

from autograder.authoring import build as build_module
from autograder.authoring.build import Build
from autograder.authoring.errors import BuildError
from tests.autograder.authoring import tiny
from tests.notebooks.filling import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    tiny.make_course(root)
    Build(root).run()
    return root


@pytest.fixture
def course(built, tmp_path):
    """A copy of the built course, to be changed by one test."""
    return shutil.copytree(built, tmp_path / "course")


def snapshot(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def release_of(root):
    return root / "notebooks" / "00_tiny" / "00_tiny.ipynb"


def solved_of(root):
    return root / "solutions" / "00_tiny" / "00_tiny.ipynb"


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_build_writes_notebooks_catalogue_and_table(built):
    release = nbformat.read(release_of(built), as_version=4)
    assert all(not cell.get("outputs") for cell in release.cells)
    solved = nbformat.read(solved_of(built), as_version=4)
    assert any(cell.get("outputs") for cell in solved.cells)
    catalogue = json.loads((built / "autograder" / "catalogue.json").read_text())
    assert catalogue[0]["exercises"][0]["points"] == 2.0
    assert "| Tiny | S3 | 1 | CPU | 1 | 2 |" in (built / "README.md").read_text()


def test_idle_build_changes_no_file(course):
    before = snapshot(course)
    assert Build(course).run() == []
    assert snapshot(course) == before


def test_no_timing_widget_state_or_version_in_a_notebook(built):
    solved = nbformat.read(solved_of(built), as_version=4)
    assert set(solved.metadata) == {"kernelspec", "language_info"}
    assert solved.metadata.language_info == {"name": "python"}
    assert not any("execution" in cell.metadata for cell in solved.cells)


@pytest.fixture
def executed(monkeypatch):
    """A list that grows by one whenever a notebook is run."""
    runs = []
    real = build_module.execute
    monkeypatch.setattr(build_module, "execute", lambda notebook: runs.append(1) or real(notebook))
    return runs


def master_of(root):
    return root / "solutions" / "00_tiny" / "00_tiny.py"


def test_only_what_the_notebook_runs_makes_it_run_again(course, executed):
    package = course / "autograder"
    edit(course / "README.md", "# Tiny", "# Tiny, and more")
    edit(master_of(course), "**Write** it.", "**Write** it well.")
    edit(master_of(course), "minutes=3", "minutes=4")
    (package / "unused.py").write_text('"""No notebook imports it."""\n')
    Build(course).run()
    assert executed == []
    assert "<span>4 min</span>" in release_of(course).read_text()
    assert any(cell.get("outputs") for cell in nbformat.read(solved_of(course), 4).cells)
    edit(package / "__init__.py", '"""autograder."""', '"""autograder."""\nX = 1')
    Build(course).run()
    assert executed == [1]
    edit(master_of(course), "points=2", "points=3")
    Build(course).run()
    assert executed == [1, 1]


def test_one_unit_can_be_built_alone(course, executed):
    other = course / "solutions" / "01_other" / "01_other.py"
    other.parent.mkdir()
    other.write_text("\n".join(tiny.parts()[name] for name in ("header", "title", "count")))
    edit(master_of(course), "2 + 3", "2 + 4")
    Build(course, only="01").run()
    assert executed == [1]
    assert (other.with_suffix(".ipynb")).exists()
    assert "2 + 3" in release_of(course).read_text()
    with pytest.raises(BuildError, match="there is no unit '02'; name one of 00, 01"):
        Build(course, only="02").run()


def test_a_release_follows_the_settings_of_nbgrader(course):
    edit(course / "nbgrader_config.py", "not written yet", "still to be written")
    assert release_of(course) in Build(course).run()
    assert "still to be written" in release_of(course).read_text()


@pytest.mark.parametrize("which", [release_of, solved_of])
def test_hand_edit_stops_the_build_and_is_named(course, which):
    edit(which(course), "# Tiny", "# Tiny, by hand")
    before = snapshot(course)
    with pytest.raises(BuildError, match=r"edited by hand \(u00-.*solutions/00_tiny/00_tiny.py"):
        Build(course).run()
    assert snapshot(course) == before


def test_overwrite_replaces_a_hand_edit(course):
    edit(release_of(course), "# Tiny", "# Tiny, by hand")
    Build(course, overwrite=True).run()
    assert "by hand" not in release_of(course).read_text()


def test_edit_taken_into_the_master_is_no_hand_edit(course):
    edit(release_of(course), "# Tiny", "# Tiny indeed")
    edit(solved_of(course), "# Tiny", "# Tiny indeed")
    edit(course / "solutions" / "00_tiny" / "00_tiny.py", "# # Tiny", "# # Tiny indeed")
    Build(course).run()
    assert "# Tiny indeed" in release_of(course).read_text()


def test_check_writes_nothing_and_tells_the_difference(course):
    edit(course / "README.md", "| Tiny |", "| Small |")
    before = snapshot(course)
    assert Build(course, check_only=True).run() == [course / "README.md"]
    assert snapshot(course) == before


def test_check_asks_for_a_build_when_a_master_changed(course):
    edit(course / "solutions" / "00_tiny" / "00_tiny.py", "2 + 3", "2 + 4")
    with pytest.raises(BuildError, match="has to be executed again: run `make build`"):
        Build(course, check_only=True).run()


def test_a_build_prints_nothing_that_alarms(tmp_path, capfd):
    tiny.make_course(tmp_path)
    Build(tmp_path).run()
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("  executing 00_tiny\n", "")


def test_an_answer_that_does_not_pass_its_own_check_stops_the_build(course):
    edit(master_of(course), "num_bytes *= size", "num_bytes += size")
    before = snapshot(course)
    with pytest.raises(BuildError, match="does not pass its checks") as stopped:
        Build(course).run()
    said = str(stopped.value)
    assert "u00-tensor-bytes-test: ✗ Bytes of a tensor on hidden sizes the check gives 0 of" in said
    assert "Not the right answer. Wrong in " in said
    assert snapshot(course) == before


def test_a_check_compares_packs_and_a_build_does_not(course, monkeypatch, capsys):
    def differ(packs):
        raise BuildError("a pack differs")

    monkeypatch.setattr(build_module.PracticePacks, "compare_some", differ)
    monkeypatch.setattr(build_module, "Build", lambda **options: Build(course, **options))
    monkeypatch.setattr(build_module, "KEPT", "this")  # a course of the test has no such module
    assert build_module.main([]) == 0
    assert build_module.main(["--check"]) == 1
    assert capsys.readouterr().err == "a pack differs\n"


CHATTY = """\
import ipywidgets
print("one", flush=True)
print("two", flush=True)
ipywidgets.IntSlider()
"""


def test_two_runs_give_the_same_bytes(tmp_path):
    for name in "ab":
        tiny.make_course(tmp_path / name, tiny.parts() | {"chatty": tiny.cell(CHATTY)})
        Build(tmp_path / name).run()
    first, second = (solved_of(tmp_path / name) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    shown = nbformat.read(first, as_version=4).cells[-1].outputs
    assert [each.output_type for each in shown] == ["stream", "execute_result"]
    assert shown[0].text == "one\ntwo\n"


def test_a_cell_that_is_not_python_is_one_sentence(tmp_path):
    tiny.make_course(tmp_path, tiny.parts() | {"bad": tiny.cell("1 +* 2")})
    with pytest.raises(BuildError, match=r"00_tiny.py is not Python \(.*: 1 \+\* 2\)\."):
        Build(tmp_path).run()


def test_failing_cell_is_told(tmp_path):
    tiny.make_course(tmp_path, tiny.parts() | {"bad": tiny.cell("1 / 0")})
    with pytest.raises(BuildError, match="ZeroDivisionError"):
        Build(tmp_path).run()
    assert not solved_of(tmp_path).exists()
    assert not release_of(tmp_path).exists()


def test_this_repository_is_built():
    assert Build(ROOT, check_only=True).run() == []
