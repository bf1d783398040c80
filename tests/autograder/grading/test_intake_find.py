"""Whatever is in a student's folder, only a regular file of theirs is read."""

import os
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest

from autograder.grading.intake import find, num_answers
from autograder.grading.intake.folder import MAX_BYTES
from tests.autograder.grading.handed_in import FRESH, OTHER, UNIT, text
from tests.needs import ROOT, needs

NOTEBOOK = text().encode()
NAME = f"{UNIT}.ipynb"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "submitted" / "ada" / UNIT
    place.mkdir(parents=True)
    return place


def nothing(folder, *words):
    found = find(folder, UNIT)
    assert found.raw is None
    said = " ".join(found.remarks)
    assert all(each in said for each in words), said


def taken(folder, *words):
    """The notebook was found, with a remark for each of these words and no other."""
    found = find(folder, UNIT)
    assert found.raw == NOTEBOOK
    assert len(found.remarks) == len(words), found.remarks
    for each, remark in zip(words, found.remarks, strict=True):
        assert each in remark


def test_the_units_notebook_is_found(folder):
    (folder / NAME).write_bytes(NOTEBOOK)
    (folder / "timestamp.txt").write_text("the day before yesterday")
    (folder / "data.csv").write_text("1,2")
    taken(folder)


@pytest.mark.parametrize(
    "name",
    [f"{UNIT} (1).ipynb", f"{UNIT}(2).ipynb", f"{UNIT}-Copy1.ipynb", f"{UNIT.upper()}.IPYNB"],
)
def test_names_that_browsers_and_editors_make_are_fine(folder, name):
    (folder / name).write_bytes(NOTEBOOK)
    taken(folder)


@pytest.mark.parametrize("name", ["homework.ipynb", "deep/er/ada's.ipynb", "\udcff\n.ipynb"])
def test_other_names_are_told(folder, name):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(NOTEBOOK)
    taken(folder, f"instead of {NAME}")
    "".join(find(folder, UNIT).remarks).encode()


def test_of_several_the_one_with_the_units_cells_is_taken(folder):
    (folder / "a.ipynb").write_bytes(text(OTHER).encode())
    (folder / "b.ipynb").write_bytes(NOTEBOOK)
    (folder / "c.ipynb").write_bytes(b'{"cells": [{"id": "u00-setup"}]}')
    taken(folder, "is called 'b.ipynb'", "Of 3 notebooks 'b.ipynb' was taken, and not 'a.ipynb'")


def test_the_right_name_comes_first_unless_nothing_of_the_unit_is_in_it(folder):
    (folder / "a.ipynb").write_bytes(NOTEBOOK.replace(b'"u00-view"', b'"u00-view", "u00-more"'))
    (folder / NAME).write_bytes(NOTEBOOK)
    taken(folder, f"Of 2 notebooks '{NAME}' was taken")
    (folder / "a.ipynb").write_bytes(NOTEBOOK)
    (folder / NAME).write_bytes(b"")
    taken(folder, "is called 'a.ipynb'", "Of 2 notebooks 'a.ipynb' was taken")


def test_notebook_in_utf_16_is_known_by_its_cells(folder):
    (folder / "a.ipynb").write_bytes(text(OTHER).encode())
    (folder / "b.ipynb").write_bytes(text().encode("utf-16"))
    assert find(folder, UNIT).raw == text().encode("utf-16")


def test_what_an_editor_or_a_later_submission_keeps_is_left_alone(folder):
    for name in (".ipynb_checkpoints", "before", "__MACOSX"):
        (folder / name).mkdir()
        (folder / name / f".{NAME}").write_bytes(NOTEBOOK)
    for name in (".ipynb_checkpoints", "before"):
        (folder / name / NAME).write_bytes(NOTEBOOK)
    (folder / f".{NAME}").write_bytes(NOTEBOOK)
    nothing(folder, "no notebook that can be read")


def test_empty_folder_missing_folder_and_a_file_in_its_place(folder):
    nothing(folder, "no notebook that can be read")
    nothing(folder / "none", "No such file")
    (folder / "file").write_text("")
    nothing(folder / "file", "'file' is a link or no folder")


# Links


def test_link_to_another_students_notebook_is_not_followed(folder, tmp_path):
    (tmp_path / "eve.ipynb").write_bytes(NOTEBOOK)
    (folder / NAME).symlink_to(tmp_path / "eve.ipynb")
    nothing(folder, f"'{NAME}' is a link and was left alone")


def test_links_beside_the_notebook_are_told(folder):
    (folder / NAME).write_bytes(NOTEBOOK)
    (folder / "data.txt").symlink_to("/etc/shadow")
    (folder / "nowhere").symlink_to("nowhere")
    taken(folder, "'data.txt' is a link", "'nowhere' is a link")


def test_folders_that_are_links_are_not_entered(folder, tmp_path):
    (tmp_path / "eve").mkdir()
    (tmp_path / "eve" / NAME).write_bytes(NOTEBOOK)
    (folder / "mine").symlink_to(tmp_path / "eve")
    (folder / "round").symlink_to(folder)
    nothing(folder, "'mine' is a link", "'round' is a link")
    whole = tmp_path / "submitted" / "eve"
    whole.symlink_to(tmp_path / "eve")
    nothing(whole, "'eve' is a link or no folder")


def test_hard_link_is_told(folder, tmp_path):
    (tmp_path / "eve.ipynb").write_bytes(NOTEBOOK)
    os.link(tmp_path / "eve.ipynb", folder / NAME)
    taken(folder, f"'{NAME}' has a second name on the disk")


# What is no file


def test_pipe_and_socket_do_not_hang(folder, monkeypatch):
    os.mkfifo(folder / NAME)
    monkeypatch.chdir(folder)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("a.ipynb")
        nothing(folder, f"'{NAME}' is a pipe", "'a.ipynb' is a socket")
    os.mkfifo(folder / "pipe")
    (folder / "b.ipynb").write_bytes(NOTEBOOK)
    assert find(folder, UNIT).raw == NOTEBOOK


@needs(ROOT)
def test_device_is_not_opened(folder):
    os.mknod(folder / NAME, 0o20666, os.makedev(1, 5))
    nothing(folder, f"'{NAME}' is a device")


def test_folder_with_the_name_of_a_notebook(folder):
    (folder / NAME).mkdir()
    nothing(folder, "no notebook")
    (folder / NAME / NAME).write_bytes(NOTEBOOK)
    taken(folder)


def test_too_big_a_file_is_not_read(folder):
    with (folder / NAME).open("wb") as file:
        file.truncate(MAX_BYTES + 2**20)
    nothing(folder, f"'{NAME}' was not read: it has 121 MiB, and at most 120 are taken")


def test_endless_depth_and_a_crowd_of_files_end(folder):
    place = folder
    for _ in range(300):
        place = place / "deeper"
        place.mkdir()
    for number in range(300):
        (folder / f"{number}.ipynb").write_bytes(b"{}")
        (folder / f"link{number}").symlink_to("/")
    found = find(folder, UNIT)
    assert found.raw == b"{}"
    assert len(found.remarks) < 20
    assert max(map(len, found.remarks)) < 1000


@contextmanager
def without_rights():
    """As somebody who is not root, for whom the modes of files count."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(me)


def test_what_may_not_be_read_is_told():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "shut").mkdir(mode=0)
        (folder / "listed").mkdir()
        (folder / "listed" / "b.ipynb").write_bytes(NOTEBOOK)
        (folder / "listed").chmod(0o744)
        (folder / NAME).write_bytes(NOTEBOOK)
        (folder / NAME).chmod(0)
        (folder / "own.ipynb").write_bytes(NOTEBOOK)
        with without_rights():
            found = find(folder, UNIT)
        assert found.raw == NOTEBOOK
        assert f"'{NAME}' was not read: Permission denied." in found.remarks
        assert "'shut' cannot be read (Permission denied)." in found.remarks
        folder.chmod(0)
        with without_rights():
            nothing(folder, "The folder cannot be read (Permission denied)")
        folder.chmod(0o700)


def test_a_solved_notebook_beside_an_untouched_one_wins_and_is_told(folder):
    (folder / NAME).write_bytes(nbformat.writes(FRESH).encode())
    (folder / f"{UNIT} (1).ipynb").write_bytes(NOTEBOOK)
    found = find(folder, UNIT, lambda raw: num_answers(raw, [FRESH]) > 0)
    assert found.raw == NOTEBOOK
    assert found.remarks == (f"Of 2 notebooks '{UNIT} (1).ipynb' was taken, and not '{NAME}'.",)
