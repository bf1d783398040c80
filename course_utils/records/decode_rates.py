"""How long do attention and the matrix products of a decoding step take, as measured?

    >>> attention_rows("H100-SXM", num_kv_heads=8, context=8192)[:2]
    [[1, 1.982e-05], [2, 3.9960000000000004e-05]]

Conventions: 32 query heads of width 128 in bf16; rows go up in conversations; what lies between two
rows is on the straight line. One matrix of 4,096 by 16,384 stands for all matrices of a model: what
is taken from it is the seconds that a byte of its weights needs.

Sources: the tables `attention_decode_rates` and `gemm_rates` beside this module.
"""

import functools

import numpy as np

from course_utils.records.traces import recorded_rows

# Names of data sheets, and what the tables call the same devices.
NAMES = {"A100-80": "A100-SXM4-80GB", "H100-SXM": "H100 80GB HBM3", "B200": "B200"}
ELEMENT_BYTES = 2
ROWS, COLUMNS = 16384, 4096


@functools.cache
def _attention() -> dict[tuple[str, int, int], list[tuple[int, float]]]:
    """Conversations and seconds, by device, key heads and context."""
    found: dict[tuple[str, int, int], list[tuple[int, float]]] = {}
    for row in recorded_rows("attention_decode_rates"):
        place = row["device"], row["kv_heads"], row["context"]
        found.setdefault(place, []).append((row["batch"], row["latency_seconds"]))
    return {place: sorted(rows) for place, rows in found.items()}


def measured_contexts(hardware: str, num_kv_heads: int) -> list[int]:
    """Contexts, in tokens, at which a device was measured with 8 key-value heads or with 1."""
    name = NAMES[hardware]
    return sorted(
        context for each, heads, context in _attention() if (each, heads) == (name, num_kv_heads)
    )


def attention_rows(hardware: str, num_kv_heads: int, context: int) -> list[list[float]]:
    """Rows ``[conversations, seconds]`` of one layer's attention in a step of decoding.

    Args:
        hardware: ``"A100-80"``, ``"H100-SXM"`` or ``"B200"``.
        num_kv_heads: 8 or 1.
        context: Cached tokens of each conversation, a power of two from 64 to 65,536.

    Raises:
        ValueError: If there are no such rows.
    """
    rows = _attention().get((NAMES.get(hardware, hardware), num_kv_heads, context))
    if rows is None:
        raise ValueError(
            f"attention_rows has no row of {hardware!r} with {num_kv_heads} key-value heads and "
            f"{context:,} cached tokens: take {', '.join(NAMES)}, 8 heads or 1, a power of two"
        )
    return [list(row) for row in rows]


@functools.cache
def _product_rows(hardware: str) -> tuple[tuple[int, float], ...]:
    """Tokens and seconds of one product."""
    wanted = NAMES[hardware], "bfloat16", ROWS, COLUMNS
    rows = recorded_rows("gemm_rates")
    own = [row for row in rows if (row["device"], row["dtype"], row["n"], row["k"]) == wanted]
    return tuple(sorted((row["m"], row["latency_seconds"]) for row in own))


def product_seconds(hardware: str, weight_bytes: float, num_tokens: float) -> float:
    """Seconds of the products of some tokens with so many bytes of weights in bf16.

    Args:
        hardware: ``"A100-80"``, ``"H100-SXM"`` or ``"B200"``.
        weight_bytes: Bytes of all matrices together.
        num_tokens: Tokens of a pass, from 1 to 8,192.
    """
    tokens, seconds = zip(*_product_rows(hardware), strict=True)
    of_one = float(np.interp(num_tokens, tokens, seconds))
    return weight_bytes / (ELEMENT_BYTES * ROWS * COLUMNS) * of_one
