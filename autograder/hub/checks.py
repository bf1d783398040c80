"""What must hold on a hub for every account, and for a student's."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import stat
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograder.commands import ROOT
from autograder.hub.finding import Finding
from autograder.hub.install import EXCHANGE_MODE, FOR_STAFF
from autograder.hub.settings import Hub
from autograder.hub.start import SETTINGS
from autograder.student.launch import SETTINGS as STUDENT_SETTINGS

API_SECONDS = 10
PYTHONS = ("python", "python3", f"python3.{sys.version_info[1]}")  # Jupyter takes its own for these
START = "Start this server with `python -m autograder.hub start`, as docs/hub.md says"


def for_everybody(hub: Hub, profile: str) -> Iterator[Finding]:
    """Packages, kernel, extensions and the exchange, for a ``student`` or an ``author``."""
    yield packages()
    yield torch()
    yield from jupyterhub()
    yield kernel()
    yield extensions(profile)
    config = nbgrader_config()
    root = config.get("Exchange", {}).get("root", "nbgrader's own")
    yield Finding("nbgrader's exchange", str(hub.exchange), str(root), START)
    yield exchange(hub)
    yield from course_in_exchange(hub, str(config.get("CourseDirectory", {}).get("course_id", "")))


def for_students(hub: Hub) -> Iterator[Finding]:
    """What a student may read, must not write, and must not find."""
    places = [Path(sysconfig.get_path("purelib")), *_packages_of(hub.course)]
    yield Finding(
        "environment readable", "all of it", _listed(_unreadable(places), "all of it"),
        f"`sudo chmod -R a+rX {sys.prefix} {hub.course}`",
    )  # fmt: skip
    writable = [str(place) for place in (*places, hub.course) if os.access(place, os.W_OK)]
    yield Finding(
        "environment read-only", "yes", _listed(writable, "yes"),
        f"`sudo chown -R root {sys.prefix} {hub.course} && "
        f"sudo chmod -R go-w {sys.prefix} {hub.course}`",
    )  # fmt: skip
    yield Finding(
        "model answers", "none", _listed(answers(hub.course), "none"),
        "Students' environments hold the archive of `make student-bundle` and nothing else of "
        "the course",
    )  # fmt: skip
    yield home()
    kept = Path.home() / "work" / "progress.json"
    is_kept = os.access(kept, os.W_OK)
    yield Finding("progress kept in", str(kept), str(kept) if is_kept else "nothing", START)


def home() -> Finding:
    """Whether nobody else reads the home; a group that is the account's own does not count."""
    mode = stat.S_IMODE(Path.home().stat().st_mode)
    others = 0o007 if Path.home().group() == Path.home().owner() else 0o077
    got = f"mode {mode:o} of group {Path.home().group()}" if mode & others else "yes"
    return Finding("home closed to others", "yes", got, f"`chmod 700 {Path.home()}`")


def packages() -> Finding:
    """Whether the versions are those that the course was tried with."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    wrong = []
    for name, version in pins.items():
        try:
            here = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            here = "none"
        if here.partition("+")[0] != version:  # torch's CPU build is 2.13.0+cpu
            wrong.append(f"{name} {here} for {version}")
    wanted = f"the {len(pins)} versions of requirements.txt"
    pip = f"`sudo {sys.executable} -m pip install -r {ROOT / 'requirements.txt'}`"
    return Finding("packages", wanted, _listed(wrong, wanted), pip)


def torch() -> Finding:
    """Whether torch computes, in a process of its own."""
    command = [sys.executable, "-c", "import torch; print(int(torch.ones(2).sum()))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (done.stdout.strip() or done.stderr.strip() or f"exit {done.returncode}").splitlines()
    return Finding("torch adds 1 and 1", "2", last[-1], "Look at the last line; install it anew")


def jupyterhub() -> Iterator[Finding]:
    """Whether this server's JupyterHub is the hub's; nothing outside of a hub."""
    address = os.environ.get("JUPYTERHUB_API_URL")
    if not address:
        return
    try:
        with urllib.request.urlopen(f"{address}/", timeout=API_SECONDS) as answer:
            wanted = str(json.load(answer)["version"])
    except (OSError, ValueError, KeyError) as error:
        wanted = f"an answer of the hub ({error})"
    here = importlib.metadata.version("jupyterhub")
    pip = f"`sudo {sys.executable} -m pip install jupyterhub=={wanted}`"
    yield Finding("version of jupyterhub", wanted, here, pip)


def kernel() -> Finding:
    """Whether notebooks run with this environment's Python."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel  # noqa: PLC0415

    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        return Finding("kernel", sys.executable, "none", "Install ipykernel in this environment")
    first = sys.executable if spec.argv[0] in PYTHONS else spec.argv[0]
    remedy = f"Another kernel has its name: remove {spec.resource_dir}"
    return Finding("kernel", sys.executable, first, remedy)


def extensions(profile: str) -> Finding:
    """Whether the server has those of nbgrader that the profile wants, and no other."""
    from jupyter_core.paths import jupyter_config_path  # noqa: PLC0415
    from jupyter_server.services.config.manager import ConfigManager  # noqa: PLC0415

    settings = SETTINGS if profile == "student" else STUDENT_SETTINGS
    ours = json.loads((settings / profile / "jupyter_server_config.json").read_text("utf-8"))
    manager: Any = ConfigManager(read_config_path=jupyter_config_path())
    found = manager.get("jupyter_server_config")
    remedy = f"{START}; what it puts first on JUPYTER_CONFIG_PATH decides"
    return Finding("nbgrader in JupyterLab", _enabled(ours), _enabled(found), remedy)


def _enabled(config: dict[str, Any]) -> str:
    states = config.get("ServerApp", {}).get("jpserver_extensions", {})
    names = [name.rpartition(".")[2] for name, is_on in states.items() if "nbgrader." in name
             and is_on]  # fmt: skip
    return ", ".join(sorted(names)) or "none"


def nbgrader_config() -> dict[str, Any]:
    """nbgrader's configuration as its commands read it here."""
    from nbgrader.apps import NbGrader  # noqa: PLC0415

    app = NbGrader()
    app.load_config_file()
    return dict(app.config)


def exchange(hub: Hub) -> Finding:
    """Whether everybody may put something there, and take away only their own."""
    wanted = f"mode {EXCHANGE_MODE:o}"
    try:
        got = f"mode {stat.S_IMODE(hub.exchange.stat().st_mode):o}"
    except OSError as error:
        got = f"nothing ({error.strerror})"
    remedy = f"`sudo mkdir -p {hub.exchange} && sudo chmod {EXCHANGE_MODE:o} {hub.exchange}`"
    return Finding(f"exchange {hub.exchange}", wanted, got, remedy)


def course_in_exchange(hub: Hub, course_id: str) -> Iterator[Finding]:
    """Whether the course's folder is the grader's, and closed where it must be."""
    course = hub.exchange / course_id
    there = sorted(each.name for each in hub.exchange.glob("*")) if hub.exchange.is_dir() else []
    if course_id not in there:
        got = f"nothing released yet as {course_id!r}" + (f", but {there}" if there else "")
        wanted = f"nothing released yet as {course_id!r}"
        remedy = "Let `c.CourseDirectory.course_id` be the same for students and grader"
        yield Finding("course in the exchange", wanted, got, remedy)
        return
    graders, owner = sorted(hub.graders), course.owner()
    wanted = owner if owner in graders else f"one of {', '.join(graders)}"
    remedy = f"Somebody else made it: `sudo mv {course} {course}.old`, then release again"
    yield Finding(f"owner of {course_id} in the exchange", wanted, owner, remedy)
    for name, wanted in (("outbound", "755"), ("inbound", "733"), ("feedback", "711")):
        if (course / name).exists():
            got = f"{stat.S_IMODE((course / name).stat().st_mode) & 0o777:o}"
            remedy = f"`chmod {wanted} {course / name}` as {owner}"
            yield Finding(f"{name} in the exchange", f"mode {wanted}", f"mode {got}", remedy)


def answers(course: Path) -> list[str]:
    """Rooms of staff that are in the students' copy or can be imported."""
    modules = [each.replace("/", ".") for each in FOR_STAFF if "/" in each]
    importable = [name for name in modules if importlib.util.find_spec(name) is not None]
    return [*(str(course / name) for name in FOR_STAFF if (course / name).exists()), *importable]


def _packages_of(course: Path) -> list[Path]:
    return [course / "autograder", course / "course_utils", course / "notebooks"]


def _unreadable(places: list[Path]) -> list[str]:
    """What this account cannot read among some folders and what lies in them."""
    found = []
    for place in places:
        entries = [place, *place.iterdir()] if os.access(place, os.R_OK | os.X_OK) else [place]
        for entry in entries:
            needed = os.R_OK | (os.X_OK if entry.is_dir() else 0)
            if not os.access(entry, needed):
                found.append(str(entry))
    return found


def _listed(found: list[str], otherwise: str) -> str:
    """What was found, the first ones by name."""
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return ", ".join(found[:3]) + more if found else otherwise
