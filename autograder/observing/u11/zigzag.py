"""Pieces of a sequence that ranks hold: whether each position is there once, and who works most."""

from itertools import pairwise
from typing import Any

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain, describe
from autograder.checking.result_form import WrongForm
from autograder.observing.observation import errors_as_data

Pieces = list[list[int]]
LABELS = {
    "not_once": "positions that are on no rank, or more than once",
    "other_counts": "ranks that do not have two pieces of equal length",
    "broken_pieces": "pieces whose positions do not follow one another",
    "most_pairs": "pairs of query and key that the busiest rank computes",
}


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


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """How far the pieces are from sharing the sequence, and the work of the busiest rank."""
    ranks: list[Pieces] = observed["ranks"]
    pieces = [piece for rank in ranks for piece in rank if piece]
    found = [position for piece in pieces for position in piece]
    length = case["seq_len"] // (2 * case["num_ranks"])
    return {
        "not_once": sum(found.count(position) != 1 for position in range(case["seq_len"]))
        + sum(not 0 <= position < case["seq_len"] for position in found),
        "other_counts": sum([len(piece) for piece in rank] != [length] * 2 for rank in ranks),
        "broken_pieces": sum(any(b - a != 1 for a, b in pairwise(each)) for each in pieces),
        "most_pairs": max(right["most_pairs"], *(pairs_of(rank, ranks) for rank in ranks)),
    }


def pairs_of(mine: Pieces, ranks: list[Pieces]) -> int:
    """Pairs that a rank computes: of two pieces all, unless no query of one sees a key."""
    keys = [piece for rank in ranks for piece in rank if piece]
    return sum(
        len(queries) * len(each)
        for queries in mine
        for each in keys
        if queries and min(each) <= max(queries)
    )
