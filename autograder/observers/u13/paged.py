"""The tables of a paged cache under a script of requests: what each one gave, and all tables after.

A request is ``["append", name]``, ``["fork", name, child]`` or ``["free", name]``. One about a
sequence that does not exist, since it was refused, is left out.
"""

from contextlib import suppress
from copy import deepcopy
from typing import Any

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import errors_as_data, require_pair
from autograder.observers.u13.paged_memory import Memory, first_wrong
from autograder.observers.u13.paged_scripts import script_of


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """What each request gave: its place, the copies that were asked for, and all tables after it.

    An entry also says whether the table of the sequence that is named first has changed. If an
    error shows that a rule was forgotten, its entry is the last.
    """
    cache = answer(case["num_blocks"], case["block_size"])
    living, named, log = set[str](), set[str](), list[dict[str, Any]]()
    for kind, *names in script_of(case):
        if kind != "append" and names[0] not in living:
            log.append({})
            continue
        before = _table_or_error(cache, names[0])
        try:
            place = _request(cache, kind, names, living)
        except LookupError as error:
            log.append({"raised": _rule_behind(error, is_gone=names[0] in named - living)})
            break
        named.add(names[0])
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
            block, cell = require_pair(cache.append(names[0]), "a pair, block and cell")
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


def _rule_behind(error: LookupError, *, is_gone: bool) -> str:
    """Which rule was forgotten where something is not found; raises the error if none is known."""
    # Python says so when something is popped from an empty list, set or deque.
    if "empty" in str(error):
        return "taken_of_none"
    if is_gone:
        return "looked_up"
    raise error


def _table_or_error(cache: Any, name: str) -> list[Any] | str:
    """A table as it is now, or what is raised for a name without one; asked of a copy."""
    try:
        return [*deepcopy(cache).table(name)]
    except Exception as error:
        return type(error).__name__


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise WrongForm("the number of a block or a cell", describe(value))
    return value


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Which request was the first that went wrong, and how."""
    memory = Memory(case["num_blocks"], case["block_size"])
    number, wrong = first_wrong(memory, script_of(case), observed["log"])

    def first_that(name: str, does: str, ask: str) -> Fact:
        label = f"the first request that {does} (0 if none does)"
        return Fact(name, number if name == wrong else 0, label, ask)

    return [
        first_that(
            "looked_up",
            "fails on a sequence that ended or was refused",
            "What do you still remember of a sequence that was refused, or ended?",
        ),
        first_that(
            "taken_of_none",
            "takes a block where none is free",
            "What should a request raise when no block is free?",
        ),
        first_that(
            "too_few_cells",
            "copies fewer cells than are filled",
            "When a sequence leaves a shared block, how many cells of that block hold its tokens, "
            "and which number do you write into `copies`?",
        ),
        first_that(
            "too_many_cells",
            "copies more cells than are filled",
            "Cells are copied that hold nothing of this sequence. How many of its tokens lie in "
            "its last block?",
        ),
        first_that(
            "other_target",
            "copies to another block than it returns",
            "Which block does `append` return, and which of the two blocks in a copy has to be "
            "that one?",
        ),
        first_that(
            "lost_tokens",
            "leaves a token where its sequence's table does not find it",
            "After this request, read every sequence through its table, cell by cell. Which token "
            "is not there, in which block was it written, and what has become of that block?",
        ),
        first_that(
            "wrong_tables",
            "leaves a table with too many blocks, or too few",
            "How many tokens does each sequence have after this request, how many blocks do they "
            "fill, and what stands in its table?",
        ),
        first_that(
            "blocks_too_many",
            "leaves more blocks in use than the tokens need",
            "Which two sequences have the same tokens in two different blocks after this request, "
            "and which request gave them separate ones?",
        ),
        first_that(
            "refused_early",
            "is refused, though there is room",
            "Does this request need a new block at all, and which blocks are in nobody's table "
            "when it comes?",
        ),
        first_that(
            "not_refused",
            "gets a block where none is free",
            "When this request comes, in whose tables is each block, and from where does the one "
            "that you hand out come?",
        ),
        first_that(
            "no_such_cell",
            "returns or copies a cell that does not exist",
            "From which number to which do blocks count, and cells in a block, and what do the "
            "three numbers of a copy stand for?",
        ),
        first_that(
            "changed",
            "is refused and changes something all the same",
            "What does `append` change in tables, counts and `copies` before it knows whether "
            "a block is free?",
        ),
    ]
