"""One zip a unit: written from what is in it, read one exercise at a time."""

import zipfile
import zlib

import pytest

from autograder import practice_files
from autograder.practice_files import (
    is_there,
    keep_only,
    members_of,
    named,
    path_of,
    replace,
    text_and_tensors,
)
from tests.notebooks.filling import ROOT

RING, FLAT = "u09-ring", "u09-flat-parts"
MAX_BYTES = 5_000_000  # of all units


@pytest.fixture
def root(tmp_path):
    """A course with the packs of two exercises, one of which has tensors and new sizes."""
    ring = named(RING, "{}", b"tensors") | named(RING, "[]", b"", again=True)
    replace(tmp_path, {RING: ring, FLAT: named(FLAT, "1", b"")})
    return tmp_path


def test_what_is_kept_of_an_exercise(root):
    assert text_and_tensors(root, RING) == ("{}", b"tensors")
    assert text_and_tensors(root, RING, again=True) == ("[]", b"")
    assert text_and_tensors(root, FLAT) == ("1", b"")
    assert [*members_of(root, RING)] == ["ring.again.json", "ring.json", "ring.safetensors"]
    assert [*members_of(root, FLAT)] == ["flat_parts.json"]
    assert is_there(root, RING, again=True)
    assert not is_there(root, FLAT, again=True)
    assert not is_there(root, "u10-flat")


def test_an_exercise_without_a_pack_is_no_empty_one(root):
    with pytest.raises(FileNotFoundError, match=r"u09.zip has no flat_parts.again.json"):
        text_and_tensors(root, FLAT, again=True)
    with pytest.raises(FileNotFoundError):
        text_and_tensors(root, "u10-flat")


def test_members_are_replaced_exercise_by_exercise(root):
    replace(root, {RING: named(RING, "2", b"")})
    assert [*members_of(root, RING)] == ["ring.json"]
    assert text_and_tensors(root, FLAT) == ("1", b"")
    keep_only(root, "u09", [FLAT])
    assert not is_there(root, RING)
    assert is_there(root, FLAT)
    keep_only(root, "u09", [])
    assert not path_of(root, FLAT).exists()


def test_one_exercise_is_read_without_the_others(root, monkeypatch):
    read, asked = zipfile.ZipFile.read, []
    monkeypatch.setattr(
        zipfile.ZipFile, "read", lambda archive, name: asked.append(name) or read(archive, name)
    )
    text_and_tensors(root, FLAT)
    assert asked == ["flat_parts.json"]


def test_the_same_members_give_the_same_bytes_whatever_their_order(root, tmp_path):
    members = {RING: members_of(root, RING), FLAT: members_of(root, FLAT)}
    for each in members.items():
        replace(tmp_path / "other", dict([each]))
    assert path_of(tmp_path / "other", RING).read_bytes() == path_of(root, RING).read_bytes()


def test_a_zip_that_another_zlib_wrote_is_the_same_if_its_members_are(root):
    members = {name: each for x in (RING, FLAT) for name, each in members_of(root, x).items()}
    with zipfile.ZipFile(path_of(root, RING), "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    written = path_of(root, RING).read_bytes()
    replace(root, {RING: members_of(root, RING)})
    assert path_of(root, RING).read_bytes() == written
    replace(root, {RING: named(RING, "other", b"")})
    assert path_of(root, RING).read_bytes() != written


def test_the_packs_of_the_course_are_small_and_packed():
    files = [*(ROOT / practice_files.FOLDER).iterdir()]
    assert {path.suffix for path in files} == {".zip"}
    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
    for path in files:
        with zipfile.ZipFile(path) as archive:
            assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
            assert archive.namelist() == sorted(archive.namelist())
            assert all(each.compress_type == zlib.DEFLATED for each in archive.infolist())
