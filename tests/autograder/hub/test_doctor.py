"""What goes wrong on a hub in silence is found, and said with what to do."""

import importlib.util
import os
import sysconfig
from pathlib import Path

import pytest

from autograder.commands import CommandError
from autograder.hub import doctor, words
from autograder.hub.doctor import Finding
from autograder.hub.settings import Hub

CONFIG = "c = get_config()\nc.CourseDirectory.course_id = '{}'\n"
SENTENCE = "`make fresh UNIT=00` gives you"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub of which everything is as it must be, but for nbgrader's exchange."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir(mode=0o700)
    for copy, sentence in (("copy", words.on_hub(SENTENCE)), ("repository", SENTENCE)):
        for name in doctor.COPIED:
            (tmp_path / copy / name).mkdir(parents=True)
        (tmp_path / copy / "nbgrader_config.py").write_text(CONFIG.format("a_course"))
        (tmp_path / copy / "notebooks" / "a.ipynb").write_text(sentence)
        (tmp_path / copy / "course_utils" / "a.py").write_text(f"# {SENTENCE}")
    (tmp_path / "repository").chmod(0o700)
    monkeypatch.setattr(doctor, "ROOT", tmp_path / "repository")
    return Hub(tmp_path / "copy", tmp_path / "exchange", {"grader": tmp_path / "repository"})


@pytest.fixture
def writable(hub, monkeypatch):
    """Places that this account may write into, of those that it is asked for."""
    places = set()
    monkeypatch.setattr(os, "access", lambda path, mode: path in places)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(hub.course / "packages"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    return places


def wrong(findings):
    return {each.subject: each.got for each in findings if not each.is_right}


def test_a_line_says_what_was_wanted_what_came_and_what_to_do():
    assert str(Finding("home", "here", "here", "nothing")) == "ok     home: here"
    line = "WRONG  home: wanted here, got there. Remove it"
    assert str(Finding("home", "here", "there", "Remove it")) == line


def test_root_is_no_account_to_ask(hub, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(CommandError, match="as a student and as the grader"):
        doctor.main(hub)


@pytest.mark.parametrize("account", ["ada", "grader"])
def test_a_server_that_start_did_not_start(hub, writable, monkeypatch, capsys, account):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(doctor, "account", lambda: account)
    assert doctor.main(hub) == 1
    first, *others, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"WRONG  nbgrader's exchange: wanted {hub.exchange}, got ")
    assert "autograder.hub start" in first
    assert [each.partition(" ")[0] for each in others] == ["ok"] * 3
    assert last == "1 wrong."


# --- A student's account --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["packages", "course_utils", "."])
def test_a_course_or_environment_that_can_be_written(hub, writable, name):
    writable.add(hub.course / name)
    found = wrong(doctor.for_students(hub))
    assert found == {"course and environment read-only": str(hub.course / name)}


@pytest.mark.parametrize("room", ["solutions", "autograder/exercises", "autograder/grading"])
def test_model_answers_in_reach(hub, writable, room):
    (hub.course / room).mkdir()
    assert wrong(doctor.for_students(hub)) == {"model answers": str(hub.course / room)}


def test_model_answers_that_can_be_imported(hub, writable, monkeypatch):
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: name == "autograder.exercises" or None
    )
    assert wrong(doctor.for_students(hub)) == {"model answers": "autograder.exercises"}


@pytest.mark.parametrize(("mode", "is_right"), [(0o700, True), (0o755, False), (0o701, False)])
def test_a_home_that_others_can_read(hub, mode, is_right):
    Path.home().chmod(mode)
    assert doctor.home().is_right is is_right


@pytest.mark.parametrize(("group", "is_right"), [("ada", True), ("students", False)])
def test_a_group_of_ones_own_may_read_the_home(hub, monkeypatch, group, is_right):
    Path.home().chmod(0o750)
    monkeypatch.setattr(Path, "owner", lambda _: "ada")
    monkeypatch.setattr(Path, "group", lambda _: group)
    assert doctor.home().is_right is is_right


# --- The grader's account -------------------------------------------------------------------------


def test_a_course_folder_that_others_can_enter(hub, tmp_path):
    doctor.ROOT.chmod(0o755)
    is_open = all(folder.stat().st_mode & 0o011 for folder in tmp_path.parents)
    assert ("course folder closed to others" in wrong(doctor.for_graders(hub))) is is_open


def test_another_course_id(hub):
    (hub.course / "nbgrader_config.py").write_text(CONFIG.format("last_year"))
    assert wrong(doctor.for_graders(hub)) == {"course id of students": "last_year"}


@pytest.mark.parametrize("name", ["course_utils/new.py", "notebooks/a.ipynb"])
def test_students_with_another_version(hub, name):
    (hub.course / name).write_text(SENTENCE)
    assert wrong(doctor.for_graders(hub)) == {"students' copy": name}
