"""What `run_ranks` sends to its processes and gets back: plain data, and pickles as bytes."""

from typing import NamedTuple


class RankJob(NamedTuple):
    """What all ranks of a job share."""

    call: bytes  # function and arguments, pickled
    num_ranks: int
    seed: int
    limit_seconds: float


class RankOutcome(NamedTuple):
    """The result or the error of one rank.

    Attributes:
        result: Pickled.
        error: Pickled, if it can be.
        message: The error in words, with rank and call.
        trace: Traceback of the function.
        is_own: Whether the rank caused the error, rather than another rank that broke its call.
        time: When it was raised.
    """

    result: bytes | None = None
    error: bytes | None = None
    message: str = ""
    trace: str = ""
    is_own: bool = True
    time: float = 0.0
