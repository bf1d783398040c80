"""Try a trainer on ranks: like `try_it`, but an error is a sentence and the trainer's own lines.

>>> try_on_ranks(gradients_on_ranks, backward_of_mean)
mismatch in collective #0: rank 0 calls all_reduce of (2, 4) float64, and rank 1 ...
    backward_of_mean, line 6: comm.all_reduce(part)
"""

import traceback
from collections.abc import Callable, Iterator
from typing import Any

from course_utils.distributed.call_matching import CommError
from course_utils.show.try_call import try_it


def try_on_ranks(function: Callable[..., Any], *values: object) -> None:
    """Print ``function(*values)`` and its result; of an error on the ranks, what matters.

    That is its message and those lines of the functions among ``values`` that led to it.
    """
    try:
        try_it(function, *values)
    except CommError as error:
        print(error)
        files = {each.__code__.co_filename for each in values if hasattr(each, "__code__")}
        for frame in _frames(error):
            if frame.filename in files:
                print(f"    {frame.name}, line {frame.lineno}: {frame.line}")


def _frames(error: CommError) -> Iterator[traceback.FrameSummary]:
    """The calls that led to an error, the innermost last."""
    yield from traceback.extract_tb((error.__cause__ or error).__traceback__)
