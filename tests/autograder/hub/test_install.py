"""The students' copy is made ready, twice if need be, and never the full repository."""

import json
import stat
import sysconfig
import zipfile
from pathlib import Path

import pytest

from autograder.authoring.publishing import NAME, bundle
from autograder.authoring.student_files import FOR_STAFF
from autograder.commands import CommandError
from autograder.hub import install, settings
from autograder.hub.settings import Hub
from tests.notebooks.filling import ROOT


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    with zipfile.ZipFile(bundle(ROOT, folder)) as archive:
        archive.extractall(folder)
    return folder / NAME


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A folder of packages in which the pointer to the course is written."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(folder))
    monkeypatch.setattr(install.importlib.util, "find_spec", lambda name: name)
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_second_time_changes_nothing(unpacked, environment, tmp_path, capsys):
    hub = Hub(unpacked, tmp_path / "srv" / "exchange", {"ada": tmp_path / "ada"})
    seen = []
    for _ in range(2):
        install.install(hub)
        files = [path for path in unpacked.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        seen.append({path: path.read_bytes() for path in files})
    assert seen[0] == seen[1]
    assert (environment / install.POINTER).read_text() == f"{unpacked}\n"
    assert mode(hub.exchange) == 0o1777
    assert [mode(path) for path in (hub.folder, *hub.folder.iterdir())] == [0o755, 0o644, 0o644]
    assert "'-P', '-m', 'autograder.hub', 'start']" in capsys.readouterr().out
    assert (
        "Assignment List" in (unpacked / "notebooks/00_start_here/00_start_here.ipynb").read_text()
    )


def test_what_was_written_is_read_again(unpacked, environment, tmp_path, monkeypatch):
    hub = Hub(unpacked, tmp_path / "exchange", {"ada": tmp_path / "ada"})
    install.install(hub)
    monkeypatch.setenv(settings.VARIABLE, str(hub.folder))
    assert settings.read() == hub
    config = json.loads((hub.folder / settings.NBGRADER).read_text())
    assert config == {"Exchange": {"root": str(hub.exchange)}}


def test_what_is_not_written_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv(settings.VARIABLE, str(tmp_path / "hub"))
    with pytest.raises(CommandError, match="does not say where exchange and graders are"):
        settings.read()


@pytest.mark.parametrize("room", install.FOR_STAFF)
def test_the_full_repository_is_refused(unpacked, environment, tmp_path, room):
    (tmp_path / "course" / room).mkdir(parents=True)
    with pytest.raises(CommandError, match=rf"has {room}: students would read model answers"):
        install.install(Hub(tmp_path / "course", tmp_path / "exchange", {}))
    assert not (tmp_path / "exchange").exists()


def test_rooms_of_staff_are_those_that_the_archive_leaves_out():
    assert set(install.FOR_STAFF) <= {*FOR_STAFF, "solutions"}


def test_without_jupyterhub_it_says_what_to_install(unpacked, environment, tmp_path, monkeypatch):
    monkeypatch.setattr(
        install.importlib.util, "find_spec", lambda name: None if name == "jupyterhub" else name
    )
    with pytest.raises(CommandError, match=r"has no jupyterhub: .*jupyterhub==VERSION"):
        install.install(Hub(unpacked, tmp_path / "exchange", {}))


def test_graders_of_the_command_line(environment, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(install, "install", kept.append)
    monkeypatch.setenv("HOME", str(tmp_path))
    install.main(tmp_path / "exchange", ["ada=/srv/course", "root"])
    (hub,) = kept
    assert hub.graders == {
        "ada": Path("/srv/course"),
        "root": Path("~root").expanduser() / "course",
    }
