"""What is wrong with the course on this hub, seen from the account that asks.

Each line is one thing that must hold; one that does not says what was wanted, what came, and what
to do. A student's account is asked for what a student needs and must not have, a grader's for what
grading needs.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator

from autograder.commands import CommandError
from autograder.hub import checks
from autograder.hub.finding import Finding
from autograder.hub.settings import Hub
from autograder.hub.start import account


def findings(hub: Hub) -> Iterator[Finding]:
    """All that was looked at for this account."""
    if account() not in hub.graders:
        yield from checks.for_everybody(hub, "student")
        yield from checks.for_students(hub)
        return
    yield from checks.for_everybody(hub, "author")
    if importlib.util.find_spec("autograder.grading") is None:
        where = hub.graders[account()]
        yield Finding("grader", "the full repository", "a students' copy", f"use that of {where}")
        return
    yield from importlib.import_module("autograder.grading.hub_checks").for_graders(hub)


def main(hub: Hub) -> int:
    """Print a line for each finding; 0 if nothing is wrong.

    Raises:
        CommandError: As root, who may do all that nobody else may.
    """
    if os.geteuid() == 0:
        raise CommandError("root may read and write all: run this as a student and as the grader.")
    num_wrong = 0
    for each in findings(hub):
        print(each, flush=True)
        num_wrong += not each.is_right
    print(f"{num_wrong} wrong." if num_wrong else "Nothing is wrong.")
    return int(num_wrong > 0)
