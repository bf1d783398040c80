"""A machine with the course on a JupyterHub, made by the commands of docs/hub.md.

Ordinary accounts: two students and a grader, with homes of their own and without passwords, so
that nobody can log in with them but through the hub, which takes the word of the test for it
(`DummyAuthenticator`): a password of the system would be a door of this machine while the test
runs. All else is as on a hub for people: servers run as these accounts, under the local spawner.

The students' environment has the packages of the one that runs the tests, as hard links, so that
nothing is downloaded; of the course it has what `make student-bundle` packs.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.publishing import NAME, bundle
from autograder.student import environment
from tests.browser.fixtures import END_SECONDS, PATIENCE_SECONDS, PICTURES, free_port, stop
from tests.hub import tools
from tests.notebooks.filling import ROOT

# What a grader works with; the environment is made apart.
REPOSITORY = (
    "autograder",
    "course_utils",
    "notebooks",
    "solutions",
    "tests",
    "Makefile",
    "README.md",
    "nbgrader_config.py",
    "pyproject.toml",
    "requirements.txt",
)
# How the environment of the tests finds this checkout.
OUR_COURSE = ("__editable__*", "course_utils-*")
UNUSED = ("include", "tests")  # headers, and packages' own tests: a third of all files
CONFIG = """
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.JupyterHub.db_url = "sqlite:///{folder}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie_secret"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api_port}"
c.ConfigurableHTTPProxy.command = ["{proxy}"]
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "{password}"
c.Authenticator.allowed_users = {names!r}
c.Spawner.http_timeout = c.Spawner.start_timeout = {patience}
c.Spawner.cmd = {command!r}
"""


@dataclass(frozen=True)
class Account:
    """An ordinary account of this machine."""

    name: str
    home: Path

    def run(self, *command: str, code: int | None = 0) -> str:
        """Run a command as this account, in its home; what it printed."""
        entry = pwd.getpwnam(self.name)
        done = subprocess.run(
            command,
            cwd=self.home,
            env={"HOME": str(self.home), "USER": self.name, "PATH": os.environ["PATH"]},
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
        assert code in (None, done.returncode), done.stdout + done.stderr
        return done.stdout + done.stderr


@dataclass(frozen=True)
class Machine:
    """What was made.

    Attributes:
        folder: All of it, but for the accounts.
        course: The students' copy of the course.
        exchange: nbgrader's exchange.
        students: Two accounts.
        grader: The account that grades, with the full repository in `course` of its home.
    """

    folder: Path
    course: Path
    exchange: Path
    students: tuple[Account, Account]
    grader: Account

    @property
    def python(self) -> Path:
        """Python of the students' environment."""
        return self.course / "environment" / "bin" / "python"

    @property
    def repository(self) -> Path:
        """The grader's folder."""
        return self.grader.home / "course"


@contextmanager
def machine() -> Iterator[Machine]:
    """Make the accounts and the folders; at the end they are gone."""
    folder = Path(tempfile.mkdtemp(prefix="hub-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        with ExitStack() as stack:
            (folder / "home").mkdir()
            ada, grace, grader = (
                stack.enter_context(account(f"{name}{os.getpid()}", folder / "home"))
                for name in ("ada", "grace", "grader")
            )
            made = Machine(folder, folder / NAME, folder / "exchange", (ada, grace), grader)
            make_students_copy(made)
            make_repository(made)
            yield made
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


@contextmanager
def account(name: str, homes: Path) -> Iterator[Account]:
    """An account with a home that others cannot enter."""
    made = Account(name, homes / name)
    command = ["useradd", "--create-home", "--home-dir", str(made.home), "--shell", "/bin/bash"]
    subprocess.run([*command, name], check=True, capture_output=True)
    made.home.chmod(0o700)
    try:
        yield made
    finally:
        subprocess.run(["userdel", "--remove", "--force", name], check=True, capture_output=True)


def make_students_copy(made: Machine) -> None:
    """Unpack the students' archive, make its environment and install, as root."""
    with zipfile.ZipFile(bundle(ROOT, made.folder / "archive")) as archive:
        archive.extractall(made.folder)
    make_environment(made.course / "environment")
    command = [made.python, "-m", "autograder.hub", "install", "--exchange", made.exchange]
    graders = ["--grader", f"{made.grader.name}={made.repository}"]
    done = subprocess.run(
        [*map(str, command), *graders], cwd=made.course, env=root_environ(), check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    (PICTURES / "hub install.txt").write_text(done.stdout)


def make_repository(made: Machine) -> None:
    """Give the grader the full repository, with an environment as `make author` makes it."""
    made.repository.mkdir(mode=0o700)
    for name in REPOSITORY:
        source, target = ROOT / name, made.repository / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    make_environment(made.repository / ".venv")
    packages = tools.packages_of(made.repository / ".venv")
    (packages / "course.pth").write_text(f"{made.repository}\n")
    environment.write_stamp(made.repository, "dev")
    for path in (made.repository, *made.repository.rglob("*")):
        if ".venv" not in path.parts:
            shutil.chown(path, made.grader.name, made.grader.name)


def make_environment(folder: Path) -> None:
    """A virtual environment with the packages of this one and JupyterHub, and no course."""
    python = tools.python_for_everybody()
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    sources = {
        Path(sysconfig.get_path("purelib")): OUR_COURSE,
        tools.packages_of(tools.TOOLS): ("tests.pth", "pip*", "*setuptools*", "*dist*utils*"),
    }
    for source, others in sources.items():
        shutil.copytree(
            source, tools.packages_of(folder), copy_function=link, symlinks=True,
            ignore=shutil.ignore_patterns(*others, *UNUSED), dirs_exist_ok=True,
        )  # fmt: skip
    for name in ("share/jupyter", "etc/jupyter"):
        shutil.copytree(Path(sys.prefix, name), folder / name, copy_function=link)
    for script in Path(sys.prefix, "bin").iterdir():
        text = script.read_bytes()
        if text.startswith(b"#!") and b"python" in text.splitlines()[0]:
            _, rest = text.split(b"\n", 1)
            (folder / "bin" / script.name).write_bytes(f"#!{folder}/bin/python\n".encode() + rest)
            (folder / "bin" / script.name).chmod(0o755)


def link(source: str, target: str) -> None:
    """Put a file there too, without its content being written again where the disk is the same."""
    if not Path(target).exists():
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)


def root_environ() -> dict[str, str]:
    """The variables of root: nothing of whoever runs the tests."""
    return {"PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C.UTF-8"}


@dataclass(frozen=True)
class RunningHub:
    """A hub that answers, and the word with which it lets accounts in."""

    machine: Machine
    origin: str
    password: str


@contextmanager
def running_hub(made: Machine) -> Iterator[RunningHub]:
    """Start JupyterHub and wait until it answers; at the end it and its servers are gone."""
    folder = made.folder / "jupyterhub"
    folder.mkdir(mode=0o700)
    port, hub_port, api_port = free_port(), free_port(), free_port()
    hub = RunningHub(made, f"http://127.0.0.1:{port}", secrets.token_hex(16))
    config = CONFIG.format(
        port=port, hub_port=hub_port, api_port=api_port, folder=folder, proxy=tools.HUB_PROXY,
        password=hub.password, names={each.name for each in (*made.students, made.grader)},
        patience=PATIENCE_SECONDS,
        command=[str(made.python), "-P", "-m", "autograder.hub", "start"],
    )  # fmt: skip
    (folder / "jupyterhub_config.py").write_text(config)
    log = PICTURES / "hub.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [tools.HUB_PYTHON, "-m", "jupyterhub", "-f", folder / "jupyterhub_config.py"],
            cwd=folder, env=root_environ(), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_for(f"{hub.origin}/hub/health", process, log)
        yield hub
    finally:
        stop(process)


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when an address answers."""
    deadline = time.monotonic() + END_SECONDS * 2
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterHub did not start; it printed:\n{log.read_text()}")
