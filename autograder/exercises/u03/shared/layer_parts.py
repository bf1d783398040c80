"""Element sizes and named parts, for the checks of whole layers."""

ELEMENT_BYTES = {2: "bf16", 4: "fp32"}
"""The precision of numbers with that many bytes."""


def sum_of(kept: dict[str, int], prefix: str) -> int:
    """Bytes of all entries whose names start with a prefix."""
    return sum(size for name, size in kept.items() if name.startswith(prefix))
