"""Why the environment cannot be made, in one sentence.

`complaint` knows before anything is downloaded where the pins have no packages. From the names of
torch's files (https://pypi.org/project/torch/2.13.0/#files): cp311 to cp314, macosx_14_0_arm64, and
manylinux_2_28 for x86_64 and aarch64. The other pins ask for less, but that numpy and pandas begin
with cp311. Whoever moves the pin of torch reads them again. `explain` reads pip's log.
"""

import platform
import re
import sys
from importlib.util import find_spec

TORCH, NEWEST = "2.13.0", (3, 14)
SYSTEMS = (
    "macOS 14 or newer on Apple silicon, or Linux with glibc 2.28 or newer on x86_64 or aarch64"
)
# The same in the words of `platform.platform()`.
NAMES = r"macOS-(1[4-9]|[2-9]\d)\b.*-arm64|Linux-.*-(x86_64|aarch64)-.*glibc2\.(2[89]|[3-9]\d)"
PYTHON = "name another Python that you have, as in `make lab PYTHON=python3.13`"
PLACE = "run the course in its container or on another machine (docs/places.md)"
DEBIAN = "install it, on Debian and Ubuntu by `sudo apt install python{}-venv`"
SPACE = "Installing needs about 6 GB of disk with torch's CUDA build, and 2 GB with its CPU build"

FULL = "No space left on device"
# Words in pip's log, and what they mean; the first that is found.
FAILURES = {
    r"(?:fetch URL \w+://|host.')(?:[^/@]*@)?([^/:']+)": "{} does not answer: check the network, "
    "a proxy, the index's address (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, pip.conf), or leave it out.",
    r"No matching distribution found for (\S+)": "No package index that pip asked has {} for this "
    "Python and platform: name another, as in `make lab PYTHON=python3.12`, or another index.",
    FULL: f"The disk is full, or that of TMPDIR. {SPACE}: make room.",
    "": "Making .venv failed, see the lines above: fix that.",
}
AGAIN = "Run the same command again and it goes on from there."


def complaint() -> str:
    """Why the pins cannot be installed on this machine, in one sentence; empty if they can."""
    python, here = "{}.{}".format(*sys.version_info), platform.platform()
    rows = (
        (sys.version_info[:2] > NEWEST, "Python 3.11 to 3.14", f"Python {python}", PYTHON),
        (not re.match(NAMES, here), SYSTEMS, here, f"{PYTHON}, or {PLACE}"),
        (not find_spec("ensurepip"), "ensurepip", "a Python without it", DEBIAN.format(python)),
    )
    sentence = "The course (torch {}) needs {}, and this is {}: {}."
    return next((sentence.format(TORCH, *row[1:]) for row in rows if row[0]), "")


def explain(log: str) -> str:
    """What the log of a failure means, and what to do."""
    # Without the lines on what came at the next try, and on pages that an index does not have.
    text = re.sub(r".*(Retrying|fetch URL \S+ 4\d\d).*", "", log)
    found = ((re.search(pattern, text), meaning) for pattern, meaning in FAILURES.items())
    return next(f"{meaning.format(*match.groups())} {AGAIN}" for match, meaning in found if match)
