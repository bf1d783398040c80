"""Why the environment cannot be made, in one sentence: tables, and two functions that look there.

`complaint_about` knows before anything is downloaded where the pins have no packages. From the
names of torch's files (https://pypi.org/project/torch/2.13.0/#files): cp311 to cp314,
macosx_14_0_arm64, and manylinux_2_28 for x86_64 and aarch64. The other pins ask for less, but that
numpy and pandas begin with cp311. Whoever moves the pin of torch reads them again.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from typing import NamedTuple

TORCH = "2.13.0"
OLDEST, NEWEST, GLIBC, MACOS = (3, 11), (3, 14), (2, 28), (14, 0)
PROCESSORS = ("x86_64", "aarch64")  # of Linux

PYTHON = "name another Python that you have, as in `make lab PYTHON=python3.13`"
PLACE = "run the course in its container or on another machine (docs/places.md)"
INTEL = f"{PYTHON}, or, if the Mac itself is one with an Intel processor, {PLACE}"
DEBIAN = "install it, on Debian and Ubuntu by `sudo apt install python{}-venv`"
SPACE = "Installing needs about 6 GB of disk with torch's CUDA build, and 2 GB with its CPU build"

# Words in pip's log or in an error of the system, and what they mean; the first that is found.
FAILURES = {
    "No space left|quota exceeded": f"The disk is too full. {SPACE}: make room, also in TMPDIR.",
    "(Permission denied|Read-only file system|not permitted)": "{}: .venv has to be written here, "
    "so copy the course to a folder of your own.",
    r"(?:fetch URL \w+://|host.')(?:[^/@]*@)?([^/:']+)": "{} does not answer: check the network, "
    "a proxy, the index's address (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, pip.conf), or leave it out.",
    "Connection|timed out|[Ii]ncomplete": "The connection to a package index broke: check it.",
    r"No matching distribution found for (\S+)": "No package index that pip asked has {} for this "
    "Python and platform: name another, as in `make lab PYTHON=python3.12`, or another index.",
    "": "Making .venv failed, see the lines above: fix that, or move away what is in its place.",
}
AGAIN = "Run the same command again and it goes on from there."


class Machine(NamedTuple):
    """What decides; a version is empty where the system has no such thing."""

    system: str
    processor: str
    python: tuple[int, ...]
    glibc: tuple[int, ...] = ()
    macos: tuple[int, ...] = ()
    lacking: str = ""  # Python's module for environments that is not there


def this_machine() -> Machine:
    """The machine and the Python that run this."""
    name, libc = platform.libc_ver()
    glibc, macos = numbers(libc if name == "glibc" else ""), numbers(platform.mac_ver()[0])
    lacking = [each for each in ("venv", "ensurepip") if not importlib.util.find_spec(each)]
    system, processor, python = platform.system(), platform.machine(), sys.version_info[:2]
    return Machine(system, processor, python, glibc, macos, "".join(lacking[:1]))


def numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def complaint_about(machine: Machine) -> str:
    """Why the pins cannot be installed there, in one sentence; empty if they can."""
    system, processor, python, glibc, macos, lacking = machine
    mac, linux = system == "Darwin", system == "Linux"
    version, libc = (".".join(map(str, each)) for each in (python, glibc or macos))
    rows = (
        (not OLDEST <= python <= NEWEST, "Python 3.11 to 3.14", f"Python {version}", PYTHON),
        (mac and processor != "arm64", "Apple silicon", f"a Python for {processor}", INTEL),
        (mac and macos < MACOS, "macOS 14 or newer", f"macOS {libc}", PLACE),
        (linux and processor not in PROCESSORS, "x86_64 or aarch64", processor, PLACE),
        (linux and not glibc, "glibc", "a Linux without it, as Alpine with its musl", PLACE),
        (linux and glibc < GLIBC, "glibc 2.28 or newer", f"glibc {libc}", PLACE),
        (lacking, f"the module {lacking}", "a Python without it", DEBIAN.format(version)),
    )
    sentence = "The course (torch {}) needs {}, and this is {}: {}."
    return next((sentence.format(TORCH, *row[1:]) for row in rows if row[0]), "")


def explain(words: str) -> str:
    """What the words of a failure mean, and what to do."""
    # Without the lines on what came at the next try, and on pages that an index does not have.
    text = re.sub(r".*(Retrying|fetch URL \S+ 4\d\d).*", "", words)
    found = ((re.search(pattern, text), meaning) for pattern, meaning in FAILURES.items())
    return next(f"{meaning.format(*match.groups())} {AGAIN}" for match, meaning in found if match)
