"""One call of your own function, shown with its sizes; a function not written yet is no error."""

from collections.abc import Callable
from typing import Any

from course_utils.distributed import RankError
from course_utils.literals import literal

LARGEST_SHOWN = 4


def try_it(function: Callable[..., Any], *values: object) -> None:
    """Print ``function(*values)`` and its result, a dictionary with one line for each entry."""
    call = f"{function.__name__}({', '.join(map(_in_words, values))})"
    try:
        result = function(*values)
    except (NotImplementedError, RankError) as error:
        if not isinstance(error.__cause__ or error, NotImplementedError):
            raise
        print(f"{call}: not written yet.")
        return
    if not isinstance(result, dict):
        print(f"{call} = {literal(result)}")
        return
    print(f"{call} =")
    for name, value in result.items():
        print(f"    {name}: {literal(value)}")


def _in_words(value: Any) -> str:
    """A value to be typed; a function by its name, a tensor of some size by its shape."""
    if isinstance(value, list):
        return f"[{', '.join(map(_in_words, value))}]"
    if hasattr(value, "numel") and value.numel() > LARGEST_SHOWN:
        return f"<tensor {tuple(value.shape)}>"
    return getattr(value, "__name__", None) or literal(value)
