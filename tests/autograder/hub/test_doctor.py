"""Each thing that may be wrong with a hub is found, and said with what to do."""

import io
import json
import os
import stat
import urllib.request
from pathlib import Path

import pytest

from autograder.grading import hub_checks
from autograder.grading.sandbox import bubblewrap
from autograder.hub import checks, doctor
from autograder.hub.finding import Finding
from autograder.hub.settings import Hub
from autograder.student.errors import CommandError

COURSE_ID = "a_course"
CONFIG = f"c = get_config()\nc.CourseDirectory.course_id = '{COURSE_ID}'\n"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub of which everything is as it must be, seen by the account that owns all of it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "work").mkdir(parents=True)
    (tmp_path / "home").chmod(0o700)
    (tmp_path / "home" / "work" / "progress.json").write_text("{}")
    for name in ("autograder", "course_utils", "notebooks"):
        (tmp_path / "copy" / name).mkdir(parents=True)
    (tmp_path / "copy" / "nbgrader_config.py").write_text(CONFIG)
    (tmp_path / "exchange").mkdir()
    (tmp_path / "exchange").chmod(0o1777)
    owner = Path(tmp_path).owner()
    return Hub(tmp_path / "copy", tmp_path / "exchange", {owner: tmp_path / "repository"})


def wrong(findings):
    return {each.subject: each for each in findings if not each.is_right}


def test_a_line_says_what_was_wanted_what_came_and_what_to_do():
    assert str(Finding("kernel", "here", "here", "nothing")) == "ok     kernel: here"
    line = "WRONG  kernel: wanted here, got there. Remove it"
    assert str(Finding("kernel", "here", "there", "Remove it")) == line


def test_root_is_no_account_to_ask(hub, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(CommandError, match="as a student and as the grader"):
        doctor.main(hub)


@pytest.mark.parametrize(("found", "said"), [("here", "Nothing is wrong."), ("there", "1 wrong.")])
def test_the_exit_code_says_whether_something_is_wrong(hub, monkeypatch, capsys, found, said):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(doctor, "findings", lambda _: [Finding("kernel", "here", found, "")])
    assert doctor.main(hub) == (found == "there")
    assert capsys.readouterr().out.splitlines()[-1] == said


# --- The exchange ---------------------------------------------------------------------------------


def test_an_exchange_that_is_not_there(hub):
    hub.exchange.rmdir()
    assert checks.exchange(hub).got == "nothing (No such file or directory)"


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1770])
def test_an_exchange_with_other_permissions(hub, mode):
    assert checks.exchange(hub).is_right
    hub.exchange.chmod(mode)
    found = checks.exchange(hub)
    assert (found.wanted, found.got) == ("mode 1777", f"mode {mode:o}")
    assert f"chmod 1777 {hub.exchange}" in found.remedy


def released(hub):
    for name, mode in (("outbound", 0o755), ("inbound", 0o2733), ("feedback", 0o711)):
        (hub.exchange / COURSE_ID / name).mkdir(parents=True)
        (hub.exchange / COURSE_ID / name).chmod(mode)


def test_nothing_released_yet_is_right_unless_another_course_is(hub):
    assert wrong(checks.course_in_exchange(hub, COURSE_ID)) == {}
    (hub.exchange / "another").mkdir()
    found = wrong(checks.course_in_exchange(hub, COURSE_ID))
    assert "['another']" in found["course in the exchange"].got


@pytest.mark.parametrize("name", ["outbound", "inbound", "feedback"])
def test_a_folder_in_the_exchange_that_is_too_open(hub, name):
    released(hub)
    assert wrong(checks.course_in_exchange(hub, COURSE_ID)) == {}
    (hub.exchange / COURSE_ID / name).chmod(0o777)
    found = wrong(checks.course_in_exchange(hub, COURSE_ID))
    assert [each.got for each in found.values()] == ["mode 777"]


def test_a_course_in_the_exchange_that_somebody_else_made(hub):
    released(hub)
    other = Hub(hub.course, hub.exchange, {"ada": hub.course, "grace": hub.course})
    (found,) = wrong(checks.course_in_exchange(other, COURSE_ID)).values()
    assert found.wanted == "one of ada, grace"


# --- A student's account --------------------------------------------------------------------------


@pytest.fixture
def closed(hub, monkeypatch):
    """An account that may read everything and write into its home alone, with no room of staff."""
    writable = set()
    monkeypatch.setattr(checks.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(checks.sysconfig, "get_path", lambda _: str(hub.course / "autograder"))

    def access(path, mode):
        asks_to_write = bool(mode & os.W_OK)
        return Path(path).exists() and (
            not asks_to_write or Path(path) in writable or Path.home() in Path(path).parents
        )

    monkeypatch.setattr(checks.os, "access", access)
    return writable


def test_an_ordinary_students_account(hub, closed):
    assert wrong(checks.for_students(hub)) == {}


def test_an_environment_that_can_be_written(hub, closed):
    closed.add(hub.course / "course_utils")
    (found,) = wrong(checks.for_students(hub)).values()
    assert found.subject == "environment read-only"
    assert found.got == str(hub.course / "course_utils")
    assert "chmod -R go-w" in found.remedy


def test_an_environment_that_cannot_be_read(hub, closed, monkeypatch):
    (hub.course / "notebooks" / "secret").mkdir()
    other = checks.os.access
    monkeypatch.setattr(
        checks.os, "access", lambda path, mode: Path(path).name != "secret" and other(path, mode)
    )
    (found,) = wrong(checks.for_students(hub)).values()
    assert found.got == str(hub.course / "notebooks" / "secret")


@pytest.mark.parametrize("room", ["solutions", "autograder/exercises", "autograder/grading"])
def test_model_answers_in_reach(hub, closed, room):
    (hub.course / room).mkdir()
    (found,) = wrong(checks.for_students(hub)).values()
    assert (found.subject, found.got) == ("model answers", str(hub.course / room))


def test_model_answers_that_can_be_imported(hub, closed, monkeypatch):
    monkeypatch.setattr(
        checks.importlib.util, "find_spec", lambda name: name == "autograder.exercises" or None
    )
    (found,) = wrong(checks.for_students(hub)).values()
    assert found.got == "autograder.exercises"


@pytest.mark.parametrize(
    ("group", "mode", "is_right"),
    [
        ("ada", 0o755, False),
        ("ada", 0o750, True),
        ("ada", 0o711, False),
        ("students", 0o750, False),
    ],
)
def test_a_home_that_is_open(hub, monkeypatch, group, mode, is_right):
    Path.home().chmod(mode)
    monkeypatch.setattr(Path, "owner", lambda _: "ada")
    monkeypatch.setattr(Path, "group", lambda _: group)
    found = checks.home()
    assert found.is_right is is_right
    assert found.got == ("yes" if is_right else f"mode {mode:o} of group {group}")


def test_no_progress_file(hub, closed):
    (Path.home() / "work" / "progress.json").unlink()
    (found,) = wrong(checks.for_students(hub)).values()
    assert found.got == "nothing"


# --- Every account --------------------------------------------------------------------------------


def test_packages_are_those_of_the_requirements(monkeypatch):
    assert checks.packages().is_right
    monkeypatch.setattr(checks.importlib.metadata, "version", lambda name: "0.1")
    found = checks.packages()
    assert found.got.startswith("torch 0.1 for 2.13.0, jupyterlab 0.1 for 4.6.6, ")
    assert "and 15 more" in found.got


def test_a_package_that_is_missing(monkeypatch):
    version = checks.importlib.metadata.version

    def without_torch(name):
        if name == "torch":
            raise checks.importlib.metadata.PackageNotFoundError
        return version(name)

    monkeypatch.setattr(checks.importlib.metadata, "version", without_torch)
    assert checks.packages().got == "torch none for 2.13.0"


def test_torch_computes_and_a_broken_one_is_quoted(monkeypatch):
    assert checks.torch().is_right
    monkeypatch.setattr(checks.sys, "executable", "/bin/false")
    assert checks.torch().got == "exit 1"


def test_another_version_of_jupyterhub(monkeypatch):
    assert list(checks.jupyterhub()) == []  # outside of a hub
    monkeypatch.setenv("JUPYTERHUB_API_URL", "http://127.0.0.1:1/hub/api")
    monkeypatch.setattr(checks.importlib.metadata, "version", lambda name: "5.3.0")
    (found,) = checks.jupyterhub()
    assert found.wanted.startswith("an answer of the hub (")
    answer = io.BytesIO(json.dumps({"version": "6.1.1"}).encode())
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: answer)
    (found,) = checks.jupyterhub()
    assert (found.wanted, found.got) == ("6.1.1", "5.3.0")
    assert "jupyterhub==6.1.1" in found.remedy


def test_a_kernel_of_another_python(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    assert checks.kernel().is_right
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": ["/usr/bin/python9", "-m", "ipykernel_launcher"], "display_name": "mine"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    found = checks.kernel()
    assert found.got == "/usr/bin/python9"
    assert str(folder) in found.remedy


def test_extensions_follow_the_settings_that_start_puts_first(monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(checks.SETTINGS / "student"))
    found = checks.extensions("student")
    assert found.got == "assignment_list, validate_assignment"
    assert found.is_right
    monkeypatch.delenv("JUPYTER_CONFIG_PATH")
    found = checks.extensions("student")
    assert "formgrader" in found.got
    assert "autograder.hub start" in found.remedy


def test_the_exchange_of_another_configuration(hub, monkeypatch, tmp_path):
    for name in ("packages", "torch", "kernel"):
        monkeypatch.setattr(checks, name, lambda: Finding("", "", "", ""))
    monkeypatch.setattr(checks, "extensions", lambda _: Finding("", "", "", ""))
    config = {"Exchange": {"root": "/usr/local/share"}, "CourseDirectory": {"course_id": "x"}}
    monkeypatch.setattr(checks, "nbgrader_config", lambda: config)
    (found,) = wrong(checks.for_everybody(hub, "student")).values()
    assert (found.wanted, found.got) == (str(hub.exchange), "/usr/local/share")


# --- The grader's account -------------------------------------------------------------------------


def test_a_machine_without_a_sandbox(monkeypatch):
    def refuse():
        raise bubblewrap.SandboxUnavailableError("install bubblewrap")

    monkeypatch.setattr(hub_checks.bubblewrap, "sandboxed", refuse)
    found = hub_checks.sandbox()
    assert (found.is_right, found.remedy) == (False, "install bubblewrap")


def test_pages_of_feedback_can_be_made(monkeypatch):
    assert hub_checks.feedback().is_right
    monkeypatch.setattr(hub_checks.sys, "executable", "/bin/false")
    assert not hub_checks.feedback().is_right


def test_a_course_folder_that_others_can_enter(tmp_path):
    way = (tmp_path, *tmp_path.parents)
    course = tmp_path / "course"
    course.mkdir()
    course.chmod(0o700)
    assert hub_checks.closed(course).is_right
    course.chmod(0o755)
    is_open = all(stat.S_IMODE(folder.stat().st_mode) & 0o011 for folder in way)
    assert hub_checks.closed(course).is_right is not is_open


@pytest.mark.parametrize(("mask", "is_right"), [(0o022, True), (0o002, True), (0o077, False)])
def test_a_umask_that_hides_feedback(mask, is_right):
    before = os.umask(mask)
    try:
        assert hub_checks.umask().is_right is is_right
        assert os.umask(mask) == mask, "it was put back"
    finally:
        os.umask(before)


def test_another_course_id(hub, monkeypatch):
    assert hub_checks.course_id(hub.course) == COURSE_ID
    config = {"CourseDirectory": {"course_id": "last_year"}}
    monkeypatch.setattr(hub_checks, "nbgrader_config", lambda: config)
    found = wrong(hub_checks.for_graders(hub))
    assert (found["course id"].wanted, found["course id"].got) == (COURSE_ID, "last_year")
    assert found["what releases a notebook"].got == "nbgrader's own"


def test_students_with_another_version(hub, monkeypatch, tmp_path):
    repository = tmp_path / "repository"
    (repository / "notebooks").mkdir(parents=True)
    monkeypatch.setattr(hub_checks, "ROOT", repository)
    there = "`make fresh UNIT=00` gives you"
    (repository / "notebooks" / "a.ipynb").write_text(there)
    (hub.course / "notebooks" / "a.ipynb").write_text(hub_checks.words.on_hub(there))
    for place in (hub.course, repository):
        (place / "course_utils").mkdir(exist_ok=True)
        (place / "course_utils" / "old.py").write_text(f"# {there}")
    assert hub_checks.same_course(hub).is_right
    (hub.course / "course_utils" / "new.py").write_text("")
    assert hub_checks.same_course(hub).got == "1 other files, as course_utils/new.py"
