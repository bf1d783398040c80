"""Why pip failed, in one sentence, from its log."""

import re

SPACE = "Installing needs about 6 GB of disk with torch's CUDA build, and 2 GB with its CPU build"
# From the names of torch's files (https://pypi.org/project/torch/2.13.0/#files): cp311 to cp314,
# macosx_14_0_arm64, and manylinux_2_28 for x86_64 and aarch64. The other pins ask for less, but
# that numpy and pandas begin with cp311. Whoever moves the pin of torch reads them again.
SYSTEMS = (
    "The course needs Python 3.11 to 3.14, on macOS 14 or newer on Apple silicon or on Linux with "
    "glibc 2.28 or newer on x86_64 or aarch64: name another Python, as in "
    "`make lab PYTHON=python3.12`, or another index, or see docs/places.md."
)
FULL = "No space left on device"
# Words in pip's log, and what they mean; the first that is found.
FAILURES = {
    r"(?:fetch URL \w+://|host.')(?:[^/@]*@)?([^/:']+)": "{} does not answer: check the network, "
    "a proxy, the index's address (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, pip.conf), or leave it out.",
    r"No matching distribution found for (\S+)": "No package index that pip asked has {} for this "
    f"Python and platform. {SYSTEMS}",
    FULL: f"The disk is full, or that of TMPDIR. {SPACE}: make room.",
    "": "Making .venv failed, see the lines above: fix that.",
}
AGAIN = "Run the same command again and it goes on from there."


def explain(log: str) -> str:
    """What the log of a failure means, and what to do."""
    # Without the lines on what came at the next try, and on pages that an index does not have.
    text = re.sub(r".*(Retrying|fetch URL \S+ 4\d\d).*", "", log)
    found = ((re.search(pattern, text), meaning) for pattern, meaning in FAILURES.items())
    return next(f"{meaning.format(*match.groups())} {AGAIN}" for match, meaning in found if match)
