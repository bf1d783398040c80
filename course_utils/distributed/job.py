"""What `run_ranks` and its processes hand each other: plain data, and what is pickled as bytes."""

from typing import NamedTuple


class RankJob(NamedTuple):
    """What all ranks of a job have in common."""

    job: bytes  # function and arguments, pickled
    num_ranks: int
    backend: str
    seed: int
    limit_seconds: float


class RankOutcome(NamedTuple):
    """What came out of one rank; either a result or an error.

    Attributes:
        result: Pickled.
        error: Pickled, if that could be done.
        kind: Name of the error's type.
        message: The error in words, with rank and call.
        trace: Lines of the function and what it called.
        is_own: Whether the error is one of the function, not of a call that others broke.
        at: Time of the error.
    """

    result: bytes | None = None
    error: bytes | None = None
    kind: str = ""
    message: str = ""
    trace: str = ""
    is_own: bool = True
    at: float = 0.0
