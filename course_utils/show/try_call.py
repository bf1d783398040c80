"""Try a function of your own: print one call and its result; an unwritten stub is no error."""

from collections.abc import Callable
from typing import Any

from course_utils.distributed import RankError
from course_utils.literals import literal

MAX_ELEMENTS_SHOWN = 4


def try_it(function: Callable[..., Any], *values: object) -> None:
    """Print ``function(*values)`` and its result; a dictionary gets one line per entry."""
    call = f"{function.__name__}({', '.join(map(_short_literal, values))})"
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


def _short_literal(value: Any) -> str:
    """A value as a literal; a function by its name, a larger tensor by its shape."""
    if isinstance(value, list):
        return f"[{', '.join(map(_short_literal, value))}]"
    if hasattr(value, "numel") and value.numel() > MAX_ELEMENTS_SHOWN:
        return f"<tensor {tuple(value.shape)}>"
    return getattr(value, "__name__", None) or literal(value)
