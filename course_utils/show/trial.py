"""One call of your own function, shown with its sizes; a function not written yet is no error."""

from collections.abc import Callable
from typing import Any

from course_utils.literals import literal


def try_it(function: Callable[..., Any], *values: object) -> None:
    """Print ``function(*values)`` and its result, a dictionary with one line for each entry."""
    call = f"{function.__name__}({', '.join(map(literal, values))})"
    try:
        result = function(*values)
    except NotImplementedError:
        print(f"{call}: not written yet.")
        return
    if not isinstance(result, dict):
        print(f"{call} = {literal(result)}")
        return
    print(f"{call} =")
    for name, value in result.items():
        print(f"    {name}: {literal(value)}")
