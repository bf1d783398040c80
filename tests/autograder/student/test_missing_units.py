"""Missing units are copied whole into the work folder; what is there is never touched."""

import json
import shutil
from pathlib import Path

import pytest

from autograder.student.missing_units import copy_missing_units


@pytest.fixture
def notebooks(tmp_path: Path) -> Path:
    for name in ("00_start_here", "01_flops"):
        unit = tmp_path / "notebooks" / name
        (unit / "images").mkdir(parents=True)
        (unit / f"{name}.ipynb").write_text(f"released {name}")
        (unit / "images" / "a.svg").write_text("picture")
    return tmp_path / "notebooks"


def test_a_new_work_folder_gets_every_unit_and_a_record(notebooks: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    assert copy_missing_units(notebooks, work) == ["00_start_here", "01_flops"]
    assert (work / "01_flops" / "images" / "a.svg").read_text() == "picture"
    empty = {"version": 1, "exercises": {}, "predictions": {}}
    assert json.loads((work / "progress.json").read_text()) == empty
    assert copy_missing_units(notebooks, work) == []


def test_nothing_is_overwritten(notebooks: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    copy_missing_units(notebooks, work)
    (work / "00_start_here" / "00_start_here.ipynb").write_text("my answers")
    (work / "progress.json").write_text("damaged")
    (work / "01_flops" / "01_flops.ipynb").unlink()
    (notebooks / "01_flops" / "images" / "b.svg").write_text("new picture")
    copied = copy_missing_units(notebooks, work)
    assert copied == ["01_flops/01_flops.ipynb", "01_flops/images/b.svg"]
    assert (work / "00_start_here" / "00_start_here.ipynb").read_text() == "my answers"
    assert (work / "progress.json").read_text() == "damaged"


def test_a_copy_is_writable_and_free_of_hidden_files(notebooks: Path, tmp_path: Path) -> None:
    source = notebooks / "00_start_here" / "00_start_here.ipynb"
    (source.parent / ".ipynb_checkpoints").mkdir()
    (source.parent / ".ipynb_checkpoints" / "old.ipynb").write_text("old")
    source.chmod(0o444)
    copy_missing_units(notebooks, tmp_path / "work")
    assert (tmp_path / "work" / "00_start_here" / source.name).stat().st_mode & 0o200
    assert not (tmp_path / "work" / "00_start_here" / ".ipynb_checkpoints").exists()


def test_an_interrupted_copy_leaves_no_half_file_and_goes_on(
    notebooks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_at_picture(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes())
        if source.suffix == ".svg":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "copyfile", break_at_picture)
        copy_missing_units(notebooks, tmp_path / "work")
    left = {file.name for file in (tmp_path / "work").rglob("*") if file.is_file()}
    assert left == {"00_start_here.ipynb", "progress.json", ".progress.json.lock"}
    copied = copy_missing_units(notebooks, tmp_path / "work")
    assert copied == ["00_start_here/images/a.svg", "01_flops"]


@pytest.mark.parametrize("blocked", ["work", "work/01_flops"])
def test_a_file_in_the_place_of_a_folder_stays(
    notebooks: Path, tmp_path: Path, blocked: str
) -> None:
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).write_text("in the way")
    with pytest.raises(OSError, match=blocked):
        copy_missing_units(notebooks, tmp_path / "work")
    assert (tmp_path / blocked).read_text() == "in the way"
