"""What would answer exercises of this unit, and sizes for their cases."""

import random
from typing import Any

# What counts the bytes of operations, or has the formulas by other names.
COUNTERS = ("course_utils.instruments.moved_bytes", "course_utils.formulas.roofline")

LLAMA_8B = {
    **{"num_layers": 32, "hidden_size": 4096, "num_heads": 32, "num_kv_heads": 8},
    **{"ffn_size": 14336, "vocab_size": 128256},
}
HEADS = ((4, 4, 6), (6, 2, 4), (8, 1, 4), (6, 3, 10), (4, 2, 2))  # a, a_kv, d


def just_above(power: int, rng: random.Random) -> int:
    """An odd size a little larger than a power of two, whose products no float holds."""
    return int(2**power + rng.randrange(1, 511, 2))


def small_model(rng: random.Random, number: int) -> dict[str, Any]:
    """A small Llama: own or shared keys, heads as wide as the model, wider, narrower."""
    heads, kv_heads, head_dim = HEADS[number % len(HEADS)]
    return {
        **{"num_layers": rng.randint(2, 3), "hidden_size": rng.choice((16, 24, 32))},
        **{"num_heads": heads, "num_kv_heads": kv_heads, "head_dim": head_dim},
        **{"ffn_size": rng.randrange(17, 71, 2), "vocab_size": rng.randrange(201, 399, 2)},
    }
