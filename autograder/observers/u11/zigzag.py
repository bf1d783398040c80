"""Pieces of a sequence that ranks hold: whether each position is there once, and who works most."""

from itertools import pairwise
from typing import Any

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import errors_as_data

Pieces = list[list[int]]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The pieces of every rank, as whole numbers."""
    c, seq_len = case["num_ranks"], case["seq_len"]
    return {"ranks": [_plain(answer(rank, c, seq_len)) for rank in range(c)]}


def _plain(pieces: Any) -> Pieces:
    """Lists of whole numbers, of lists, ranges or tensors of them."""
    try:
        return [[_whole(position) for position in piece] for piece in pieces]
    except (TypeError, ValueError, OverflowError):
        raise WrongForm("pieces, each a list of positions", describe(pieces)) from None


def _whole(position: Any) -> int:
    if isinstance(position, bool | str):
        raise TypeError
    return int(position)


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """How far the pieces are from sharing the sequence, and the work of the busiest rank."""
    ranks: list[Pieces] = observed["ranks"]
    pieces = [piece for rank in ranks for piece in rank if piece]
    length = case["seq_len"] // (2 * case["num_ranks"])
    return [
        Fact(
            "not_once",
            _num_not_once(pieces, case["seq_len"]),
            "positions that are on no rank, or more than once",
            "Write down the positions of all ranks for eight tokens on two. Which is missing, and "
            "which is there twice?",
        ),
        Fact(
            "other_counts",
            sum([len(piece) for piece in rank] != [length] * 2 for rank in ranks),
            "ranks that do not have two pieces of equal length",
            "How many tokens does each rank hold, and in how many pieces?",
        ),
        Fact(
            "broken_pieces",
            sum(any(b - a != 1 for a, b in pairwise(each)) for each in pieces),
            "pieces whose positions do not follow one another",
            "Do the positions of a piece follow one another?",
        ),
        Fact(
            "most_pairs",
            max(right["most_pairs"], *(pairs_of(rank, ranks) for rank in ranks)),
            "pairs of query and key that the busiest rank computes",
            "How many pieces of keys does piece i see? Which two pieces together see as many as "
            "any other two?",
        ),
    ]


def _num_not_once(pieces: Pieces, seq_len: int) -> int:
    """Positions of the sequence that are not there once, and those that it does not have."""
    found = [position for piece in pieces for position in piece]
    return sum(found.count(position) != 1 for position in range(seq_len)) + sum(
        not 0 <= position < seq_len for position in found
    )


def pairs_of(mine: Pieces, ranks: list[Pieces]) -> int:
    """Pairs that a rank computes: of two pieces all, unless no query of one sees a key."""
    keys = [piece for rank in ranks for piece in rank if piece]
    return sum(
        len(queries) * len(each)
        for queries in mine
        for each in keys
        if queries and min(each) <= max(queries)
    )
