"""Results that several ranks have to hold."""

from autograder.checking.fact import Fact


def wrong_results(num_ranks: int, ask: str) -> Fact:
    """Ranks that hold another result than they should."""
    return Fact("wrong_results", num_ranks, "ranks whose result is wrong", ask)
