"""Start JupyterLab for a student (`lab`) or an author (`author`).

A student sees `work/` and nbgrader's *Validate* button; an author sees the repository, with all of
nbgrader and with jupytext, which opens text masters as notebooks. The difference lies in two small
folders of Jupyter settings in `autograder/jupyter`, put first on Jupyter's own search path; neither
the user's settings nor the environment change. An author's files are saved only on request: Jupyter
cannot tell a text master from a module, opens both as notebooks, and its autosave would write a
notebook's header into the module.

    serve(ROOT, "student", student_page(ROOT, "01"), 8890)
"""

import os
import secrets
import signal
import sys
import webbrowser
from pathlib import Path
from typing import Any

import zmq

from autograder.commands import find_unit, say, units_in
from autograder.student.missing_units import copy_missing_units
from autograder.student.outdated import outdated_units

SETTINGS = Path(__file__).resolve().parents[1] / "jupyter"
DEFAULT_PORT = 8888
PORTS_TRIED = 50


def student_page(root: Path, unit: str) -> str:
    """Copy missing units into `work/`; choose what opens: a unit, or what was open before."""
    work = root / "work"
    copied = copy_missing_units(root / "notebooks", work)
    if copied:
        say("Copied into work/: " + ", ".join(copied))
    for name in outdated_units(root / "notebooks", work):
        say(
            f"{name} was made for another version of the course and may not run with this one: "
            f"`make fresh UNIT={name[:2]}` puts your answers into a new notebook and keeps the old."
        )
    first = "".join(each.name for each in units_in(work)[:1] if each.name in copied)
    name = find_unit(work, unit) if unit else first
    return f"/lab/tree/{name}/{name}.ipynb" if name else "/lab"


def author_page(root: Path, unit: str) -> str:
    """Choose what opens: the text master of a unit, or what was open last time."""
    name = find_unit(root / "solutions", unit) if unit else ""
    return f"/lab/tree/solutions/{name}/{name}.py" if name else "/lab"


def has_display() -> bool:
    """Whether a browser window can open; one inside the terminal would only be in the way."""
    windows = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform != "linux" or any(os.environ.get(name) for name in windows)


def use_settings(root: Path, profile: str) -> None:
    """Put our Jupyter settings before the user's own, for this process and its kernels."""
    if not os.access(os.environ.get("HOME", ""), os.W_OK):
        home = root / "work" / ".home"  # Jupyter, IPython and matplotlib keep files there
        home.mkdir(parents=True, exist_ok=True)
        os.environ["HOME"] = str(home)
    paths = [str(SETTINGS / profile), os.environ.get("JUPYTER_CONFIG_PATH")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))


def root_of(root: Path, profile: str) -> Path:
    """The folder that is shown: a student's own, or the repository."""
    return root / "work" if profile == "student" else root


def server_options(root: Path, profile: str, page: str, port: int) -> dict[str, object]:
    """Options of the server, which override the user's own settings.

    If the port is busy, the next free one is used and the address printed. A user who needs a
    certain port, for a tunnel, is told that it was busy.
    """
    return {
        "ServerApp.root_dir": root_of(root, profile),
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": PORTS_TRIED,
        "ServerApp.open_browser": has_display(),
        # Jupyter refuses to run as root, as in a container; the token protects the server.
        "ServerApp.allow_root": True,
        "ServerApp.log_level": "ERROR",
        "LabApp.log_level": "ERROR",
        "IdentityProvider.token": secrets.token_hex(24),
        # Otherwise each kernel warns in the terminal that others could listen.
        "KernelManager.transport_encryption": "auto" if zmq.has("curve") else "disabled",
        "LabApp.default_url": page,
        # Open tabs belong to this folder; Jupyter would mix them with those of other projects.
        "LabApp.workspaces_dir": root / "work" / ".workspaces" / profile,
    }


def address(url: str, page: str, token: str) -> str:
    """The address to open by hand."""
    return f"{url.rstrip('/')}{page}?token={token}"


def announce(server: Any, page: str, wanted_port: int | None) -> None:
    """Say that the page is ready, and where."""
    if wanted_port not in (None, server.port):
        say(f"Port {wanted_port} is busy; using port {server.port} instead.")
    say("The page is ready; if no browser opens it, go to this address. Ctrl-C here stops it.")
    say(address(server.connection_url, page, server.identity_provider.token))


def stop_on_signals(server: Any) -> None:
    """Let Ctrl-C and a closed terminal stop the server and its kernels without asking."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: server.stop(from_signal=True))


def address_of_running(folder: Path, page: str) -> str:
    """The address of a server that this user runs on the folder already; empty if there is none.

    Two servers on the same files would overwrite what the other one saves.
    """
    from jupyter_server.serverapp import list_running_servers  # noqa: PLC0415

    for server in list_running_servers():
        if Path(server["root_dir"]).resolve() == folder.resolve():
            return address(server["url"], page, server["token"])
    return ""


def serve(root: Path, profile: str, page: str, port: int | None, farewell: str = "") -> None:
    """Run the server in this process until Ctrl-C; its kernels end with it.

    Args:
        root: The folder of the course.
        profile: Whose settings: `student` or `author`.
        page: What opens.
        port: The port to use if it is free; None for the usual one.
        farewell: What is said when it has stopped, in place of where the notebooks are.
    """
    use_settings(root, profile)
    if there := address_of_running(root_of(root, profile), page):
        say("JupyterLab runs on this folder already: open it there, or stop it with Ctrl-C first.")
        say(there)
        if has_display():
            webbrowser.open(there)
        return
    # Imported only now, when its settings are in place.
    from jupyterlab.labapp import LabApp  # noqa: PLC0415

    options = server_options(root, profile, page, DEFAULT_PORT if port is None else port)
    server = LabApp.initialize_server([f"--{name}={value}" for name, value in options.items()])
    stop_on_signals(server)
    server.io_loop.add_callback(announce, server, page, port)
    server.start()
    say(farewell or f"JupyterLab is stopped; your work is in {options['ServerApp.root_dir']}")
