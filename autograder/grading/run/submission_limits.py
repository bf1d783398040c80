"""What stops a submission that never ends: how long its code may take, and how often it may crash.

`Session` keeps these limits; around them `bounded_process.py` bounds the process that grades.
"""

from dataclasses import dataclass

from autograder.checking.time_limit import LIMIT_SECONDS

WALL_TIME_FACTOR = 4  # how many times its processor time a request may take by the clock
MAX_PROCESSES = 8
MAX_CPU_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long the code of one submission may take.

    Attributes:
        cell_seconds: Processor time of a cell.
        answer_seconds: Processor time of an answer in one case.
        child_seconds: Processor time of all that its process starts.
        total_seconds: Time by the clock of all cells and answers together.
    """

    cell_seconds: float = 60.0
    answer_seconds: float = LIMIT_SECONDS
    child_seconds: float = 60.0
    total_seconds: float = 900.0
