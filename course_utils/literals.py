"""Python literals as a person would type them: large integers with underscores."""

from typing import Any

SHORT = 10_000


def literal(value: Any) -> str:
    """Python source for a value: ``100_000``, ``{'saved_bytes': 40}``, ``(4, 2_000_000)``."""
    kind = type(value)
    if kind is int and abs(value) >= SHORT:
        return f"{value:_}"
    if kind is list:
        return "[" + ", ".join(map(literal, value)) + "]"
    if kind is tuple:
        return "(" + ", ".join(map(literal, value)) + ("," if len(value) == 1 else "") + ")"
    if kind is dict:
        return "{" + ", ".join(f"{key!r}: {literal(item)}" for key, item in value.items()) + "}"
    return repr(value)
