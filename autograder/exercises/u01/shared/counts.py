"""Models for the checks of this unit, and their FLOPs as counted while they run."""

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case
from course_utils.configs import ModelConfig
from course_utils.instruments import FlopCount, count_flops
from course_utils.reference import Transformer
from course_utils.reference.layers import attend

# What counts FLOPs, and so answers every exercise of this unit.
COUNTERS = ("course_utils.instruments.flop_count", "torch.utils.flop_counter")
SMALL_HIDDEN_SIZE = 512


SMALLEST = {
    "num_layers": 2,
    "hidden_size": 4,
    "num_heads": 1,
    "num_kv_heads": 1,
    "ffn_size": 3,
    "vocab_size": 5,
}
LLAMA_1B = {
    "num_layers": 16,
    "hidden_size": 2048,
    "num_heads": 32,
    "num_kv_heads": 8,
    "ffn_size": 8192,
    "vocab_size": 128256,
}


def model_cases(seed: int) -> list[Case]:
    """Tied and untied heads; multi-head, grouped-query and multi-query attention; some batches.

    Then each size is changed by itself. The last count is beyond a float and beyond 64 bits, for
    one token too.
    """
    rng = random.Random(seed)
    cases: list[Case] = [{"model": SMALLEST | {"is_tied": False}, "num_sequences": 1, "seq_len": 2}]
    for is_tied in (False, True):
        for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
            for num_sequences in (1, rng.randint(2, 5), rng.randint(2, 9)):
                head_dim = rng.choice((4, 8))
                model = {
                    "num_layers": rng.randint(1, 3),
                    "hidden_size": kv * group * head_dim,
                    "num_heads": kv * group,
                    "num_kv_heads": kv,
                    "ffn_size": rng.randrange(5, 99, 2),
                    "vocab_size": rng.randrange(11, 999, 2),
                    "is_tied": is_tied,
                }
                seq_len = rng.randrange(3, 99, 2)
                cases.append({"model": model, "num_sequences": num_sequences, "seq_len": seq_len})
    llama = LLAMA_1B | {"is_tied": True}
    lengths = ((1, 64 * rng.randint(32, 96)), (2, 64 * rng.randint(8, 31)))
    real = [{"model": llama, "num_sequences": n, "seq_len": length} for n, length in lengths]
    beyond_64_bits = {
        **{"num_layers": 8, "hidden_size": 32769 * 62, "num_heads": 32769, "num_kv_heads": 10923},
        **{"ffn_size": just_above(38, rng), "vocab_size": 128256, "is_tied": True},
    }
    last = {"model": beyond_64_bits, "num_sequences": 1, "seq_len": 4097}
    return [*cases, *real, *_model_one_at_a_time(rng), last]


def _model_one_at_a_time(rng: random.Random) -> Iterator[Case]:
    batches = {"num_sequences": 2, "seq_len": 5}, {"num_sequences": 3, "seq_len": 7}
    models = (model | {"is_tied": False} for model in models_to_vary(rng))
    return one_at_a_time(*({"model": m} | b for m, b in zip(models, batches, strict=True)))


def models_to_vary(rng: random.Random) -> tuple[dict[str, int], dict[str, int]]:
    """Two models between which each size can be changed by itself; heads as wide as usual."""
    first = {"num_layers": 1, "hidden_size": 24, "num_heads": 4, "num_kv_heads": 2}
    last = {"num_layers": 2, "hidden_size": 48, "num_heads": 12, "num_kv_heads": 3}
    sizes = sorted(rng.sample(range(5, 99, 2), 4))
    return (
        first | {"ffn_size": sizes[0], "vocab_size": sizes[1]},
        last | {"ffn_size": sizes[2], "vocab_size": sizes[3]},
    )


def one_at_a_time(first: Case, last: Case) -> Iterator[Case]:
    """The way from one case to another, one size at a time.

    An answer that remembers results, but does not look at some size, is wrong right after.
    """
    yield (case := first)
    for name, value in last.items():
        for step in one_at_a_time(case[name], value) if isinstance(value, dict) else (value,):
            if step != case[name]:
                yield (case := case | {name: step})


def just_above(power: int, rng: random.Random) -> int:
    """An odd size a little larger than a power of two.

    A product of three is a little larger than a power of two, too. So the order of operations
    matters neither to what 64 bits keep of it nor to how a float32 rounds it.
    """
    return int(2**power + rng.randrange(1, 511, 2))


def with_own_head_dim(model: dict[str, Any], *, is_wider: bool) -> dict[str, Any]:
    """The same model with heads wider or narrower than ``hidden_size / num_heads``."""
    usual = model["hidden_size"] // model["num_heads"]
    return model | {"head_dim": usual + 6 if is_wider else usual - 2}


def meta(*shape: int) -> torch.Tensor:
    """A tensor without numbers, of a given shape."""
    return torch.empty(*shape, device="meta")


def one_layer(hidden_size: int, **sizes: Any) -> ModelConfig:
    """A model of one layer, of which only the named sizes matter."""
    others = {"num_layers": 1, "num_heads": 1, "ffn_size": 1, "vocab_size": 1}
    return ModelConfig(hidden_size=hidden_size, **{**others, **sizes})


def counted_core(sizes: ModelConfig, seq_len: int) -> int:
    """FLOPs of one layer's attention core for one sequence, counted while it runs."""
    q = meta(1, seq_len, sizes.num_heads, sizes.head_dim)
    kv = meta(1, seq_len, sizes.num_kv_heads, sizes.head_dim)
    return count_flops(lambda: attend(q, kv, kv)).forward_flops


def counted_model(model: dict[str, Any], num_sequences: int, seq_len: int) -> FlopCount:
    """FLOPs of a whole model, forward and backward, counted while it runs."""
    return _counted_model(json.dumps(model), num_sequences, seq_len)


@cache
def _counted_model(model: str, num_sequences: int, seq_len: int) -> FlopCount:
    """A small model runs on real tensors, which is faster; a large one on the meta device.

    Attention is materialised on both: flash attention would recompute the scores in backward.
    """
    sizes = model_of(json.loads(model))
    device = "cpu" if sizes.hidden_size < SMALL_HIDDEN_SIZE else "meta"
    built = Transformer(sizes, device=device)
    ids = torch.zeros(num_sequences, seq_len, dtype=torch.long, device=device)
    with sdpa_kernel(SDPBackend.MATH):
        return count_flops(lambda: built(ids))
