"""Whose server starts with which folder, environment, settings and umask."""

import json
import os
import pwd
import types
from pathlib import Path

import pytest

from autograder.commands import CommandError
from autograder.hub import start
from autograder.hub.settings import Hub
from autograder.student.launch import SETTINGS as STUDENT_SETTINGS

PYTHON = Path("/opt/course/environment/bin/python")


class Started(Exception):
    """In place of what replaces the process: it does not return."""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub on which `grader` grades, seen from an account with an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/theirs")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    return Hub(tmp_path / "copy", tmp_path / "exchange", {"grader": tmp_path / "repository"})


@pytest.fixture
def started(hub, monkeypatch):
    """Start the server of an account: its command and variables, its folder and umask."""

    def run(account, *arguments):
        seen = {}

        def execve(path, command, environ):
            seen.update(command=command, environ=environ, folder=Path.cwd())
            assert path == command[0]
            raise Started

        monkeypatch.setattr(start, "account", lambda: account)
        monkeypatch.setattr(os, "execve", execve)
        monkeypatch.setattr(os, "umask", lambda mask: seen.update(umask=mask))
        with pytest.raises(Started):
            start.start(hub, PYTHON, arguments)
        return seen

    return run


def test_a_student_gets_a_folder_with_progress(hub, started):
    seen = started("ada", "--debug")
    work = Path.home() / "work"
    assert seen["command"] == [str(PYTHON), "-P", "-m", "jupyterhub.singleuser", "--debug"]
    assert (seen["folder"], seen["umask"]) == (work, 0o077)
    assert seen["environ"]["JUPYTERHUB_ROOT_DIR"] == str(work)
    assert seen["environ"]["PATH"] == f"{PYTHON.parent}:/usr/bin"
    assert seen["environ"]["COURSE_HUB"] == str(hub.folder)
    folders = [start.SETTINGS / "student", hub.folder, hub.course, "/theirs"]
    assert seen["environ"]["JUPYTER_CONFIG_PATH"] == ":".join(map(str, folders))
    assert json.loads((work / "progress.json").read_text())["exercises"] == {}


def test_what_a_student_has_done_stays(started):
    started("ada")
    kept = Path.home() / "work" / "progress.json"
    kept.write_text("{}")
    started("ada")
    assert kept.read_text() == "{}"


def test_a_grader_gets_the_repository(hub, started):
    python = hub.graders["grader"] / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    seen = started("grader")
    assert seen["command"] == [str(python), "-P", "-m", "jupyterhub.singleuser"]
    assert (seen["folder"], seen["umask"]) == (hub.graders["grader"], 0o022)
    folders = [STUDENT_SETTINGS / "author", start.SETTINGS / "grader", hub.folder]
    folders += [hub.graders["grader"], "/theirs"]
    assert seen["environ"]["JUPYTER_CONFIG_PATH"] == ":".join(map(str, folders))
    assert not (Path.home() / "work").exists()


def test_a_grader_without_an_environment_is_told_how_to_make_it(hub, monkeypatch):
    monkeypatch.setattr(start, "account", lambda: "grader")
    with pytest.raises(CommandError, match=r"grader grades .* wanted .*/\.venv/bin/python"):
        start.start(hub, PYTHON, [])


@pytest.mark.parametrize(("system", "name"), [("jupyter-ada", "jupyter-ada"), ("jovyan", "ada")])
def test_an_account_has_the_name_that_nbgrader_gives_it(monkeypatch, system, name):
    entry = types.SimpleNamespace(pw_name=system)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry)
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    assert start.account() == name


def test_students_have_what_a_laptop_has_and_the_exchange():
    """The settings of `make lab`, but for *Assignment List*, its menu, and terminals.

    A shell that logs in, as Jupyter starts it, takes the PATH of the system in place of ours.
    """
    hub, laptop = (
        json.loads((folder / "student" / "jupyter_server_config.json").read_text())
        for folder in (start.SETTINGS, STUDENT_SETTINGS)
    )
    states = laptop["ServerApp"]["jpserver_extensions"]
    states["nbgrader.server_extensions.assignment_list"] = True
    terminals = {"shell_command": ["bash"]}
    assert hub == {"ServerApp": laptop["ServerApp"] | {"terminado_settings": terminals}}
    grader = json.loads((start.SETTINGS / "grader" / "jupyter_server_config.json").read_text())
    assert grader == {"ServerApp": {"terminado_settings": terminals}}
    hub, laptop = (
        json.loads((folder / "student" / "labconfig" / "page_config.json").read_text())
        for folder in (start.SETTINGS, STUDENT_SETTINGS)
    )
    for shown in ("assignment-list", "menu"):
        del laptop["disabledExtensions"][f"@jupyter/nbgrader:{shown}"]
    assert hub == laptop
