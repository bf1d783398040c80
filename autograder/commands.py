"""What all commands share: the course's folder, why one stops, a line of progress, names of units.

This file imports nothing that has to be installed: the first command makes the environment.
"""

import argparse
import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

ROOT = Path(__file__).resolve().parents[1]
UNIT_PATTERN = "[0-9][0-9]_*"

Options = ParamSpec("Options")


class CommandError(Exception):
    """Stops a command, with one sentence for its user: wanted, got, what to do."""


def stops_with_a_sentence(main: Callable[Options, int]) -> Callable[Options, int]:
    """Let a command that stops say why on stderr, and give 1."""

    @functools.wraps(main)
    def command(*arguments: Options.args, **named: Options.kwargs) -> int:
        try:
            return main(*arguments, **named)
        except CommandError as error:
            print(error, file=sys.stderr)
            return 1

    return command


def say(line: str) -> None:
    """Print a line at once, also through a pipe."""
    print(line, flush=True)


def git(folder: Path, *words: str) -> str:
    """What a command of git prints in a folder.

    Raises:
        FileNotFoundError: If there is no git.
        subprocess.CalledProcessError: If the command fails, as where there is no repository.
    """
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def units_in(folder: Path) -> list[Path]:
    """The unit folders, in the order of their numbers."""
    return sorted(entry for entry in folder.glob(UNIT_PATTERN) if entry.is_dir())


def find_unit(folder: Path, wanted: str) -> str:
    """The name of a unit, from "1", "01" or the whole name.

    Raises:
        CommandError: If there is none or more than one.
    """
    names = [unit.name for unit in units_in(folder)]
    number = wanted.zfill(2) if wanted.isdigit() else wanted
    found = [name for name in names if name == wanted or name.startswith(f"{number}_")]
    if len(found) != 1:
        there = ", ".join(names) or "none yet"
        wrong = f"There is no unit `{wanted}`" if wanted else "No unit is named"
        raise CommandError(f"{wrong}: name one of these, or its number, as in `UNIT=01`: {there}.")
    return found[0]


def port_number(text: str) -> int:
    """A valid port, from the command line."""
    if not text.isdigit() or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"wanted a port from 1 to 65535, got {text!r}")
    return int(text)
