"""The tables of a paged cache under a script of requests: what each one gave, and all tables after.

A request is ``["append", name]``, ``["fork", name, child]`` or ``["free", name]``. One about a
sequence that does not exist, since it was refused, is left out.
"""

from contextlib import suppress
from copy import deepcopy
from typing import Any

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain, describe
from autograder.observing.observation import errors_as_data
from autograder.observing.u13.paged_memory import Memory, judged
from autograder.observing.u13.paged_scripts import script_of

LABELS = {
    "served_requests": "requests served right, up to the first that was not",
    "lost_tokens": "A token can no longer be read where its sequence's table says.",
    "wrong_tables": "A table has too many blocks, or too few.",
    "blocks_too_many": "More blocks are in use than the tokens need.",
    "refused_early": "A token was refused, though there was room.",
    "not_refused": "A token got a block where none was free.",
    "no_such_cell": "There is no such cell.",
    "changed": "A request was refused, and something is different all the same.",
}


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Of each request its place, the copies asked for, all tables after it.

    And whether the first sequence that it names has another table than before, or one at all.
    """
    cache = answer(case["num_blocks"], case["block_size"])
    living, log = set[str](), list[dict[str, Any]]()
    for kind, *names in script_of(case):
        if kind != "append" and names[0] not in living:
            log.append({})
            continue
        before = _table_or_error(cache, names[0])
        place = _request(cache, kind, names, living)
        copies = [[_whole(each) for each in copy] for copy in cache.copies]
        cache.copies.clear()
        tables = {name: [_whole(each) for each in cache.table(name)] for name in sorted(living)}
        has_other_table = before != _table_or_error(cache, names[0])
        entry = {"place": place, "copies": copies, "tables": tables}
        log.append({**entry, "has_other_table": has_other_table})
    return {"log": log}


def _request(cache: Any, kind: str, names: list[str], living: set[str]) -> list[int] | None:
    """Make a request; its place, or None where there is none."""
    if kind == "append":
        try:
            block, cell = cache.append(names[0])
        except MemoryError:
            return None
        living.add(names[0])
        return [_whole(block), _whole(cell)]
    if kind == "free":
        cache.free(names[0])
        living.discard(names[0])
    else:
        with suppress(MemoryError):  # of a fork that takes blocks
            cache.fork(*names)
            living.add(names[1])
    return None


def _table_or_error(cache: Any, name: str) -> list[Any] | str:
    """A table as it is now, or what is raised for a name without one; asked of a copy."""
    try:
        return [*deepcopy(cache).table(name)]
    except Exception as error:
        return type(error).__name__


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"wanted the number of a block or a cell, got {describe(value)}")
    return value


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """How far the script was served right, and what went wrong then."""
    memory = Memory(case["num_blocks"], case["block_size"])
    return judged(memory, script_of(case), observed["log"])
