"""Check of the FLOPs of one layer's attention."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    just_above,
    meta,
    one_at_a_time,
    one_layer,
)
from course_utils.instruments import count_flops
from course_utils.reference.layers import GroupedAttention, attend


def attention_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query and multi-query attention; batches; odd lengths, one token.

    There are 49 heads, of which a float cannot hold one share. The two counts of the last case are
    beyond a float and 64 bits.
    """
    rng = random.Random(seed)
    first = {"num_sequences": 1, "seq_len": 3, "num_heads": 2, "num_kv_heads": 1, "head_dim": 4}
    cases = [first, first | {"seq_len": 1, "num_kv_heads": 2, "num_sequences": rng.randint(1, 40)}]
    for kind in ("multi-head", "grouped-query", "multi-query"):
        for num_sequences in (1, 1, rng.randint(2, 9), rng.randint(2, 9)):
            kv, group = rng.choice(((1, rng.randint(2, 9)), (rng.randint(2, 5), rng.randint(2, 5))))
            if kind == "multi-head":
                kv, group = kv * group, 1
            else:
                kv, group = (1, kv * group) if kind == "multi-query" else (2, group)
            sizes = (num_sequences, rng.randrange(5, 300, 2), kv * group, kv)
            cases.append(dict(zip(first, (*sizes, rng.choice((4, 6, 8))), strict=True)))
    llama = dict(zip(first, (2, rng.randint(4, 64) * 64, 32, 8, 128), strict=True))
    large = dict(zip(first, (rng.randint(1, 4), 8192, 64, 8, 128), strict=True))
    forty_nine = dict(zip(first, (1, rng.randrange(5, 99, 2), 49, 1, 4), strict=True))
    start = dict(zip(first, (2, rng.randrange(5, 99, 2), 12, 2, 4), strict=True))
    end = dict(zip(first, (3, rng.randrange(101, 199, 2), 24, 3, 8), strict=True))
    num_kv_heads = 513 + 2 * rng.randint(0, 1)
    beyond = (257, just_above(20, rng), 2 * num_kv_heads, num_kv_heads, 130)
    return [
        *(*cases, llama, large, forty_nine),
        *one_at_a_time(start, end),
        dict(zip(first, beyond, strict=True)),
    ]


def measured_attention_flops(
    num_sequences: int, seq_len: int, num_heads: int, num_kv_heads: int, head_dim: int
) -> dict[str, int]:
    """The whole attention module and its core alone, counted on the meta device."""
    model = one_layer(num_heads * head_dim, num_heads=num_heads, num_kv_heads=num_kv_heads)
    attention = GroupedAttention(model, "meta")
    whole = count_flops(lambda: attention(meta(num_sequences, seq_len, model.hidden_size)))
    q = meta(num_sequences, seq_len, num_heads, head_dim)
    kv = meta(num_sequences, seq_len, num_kv_heads, head_dim)
    core = count_flops(lambda: attend(q, kv, kv)).forward_flops
    return {"projection_flops": whole.forward_flops - core, "core_flops": core}


CHECK = Check(
    cases=attention_cases,
    judge=EqualTo(measured_attention_flops, *mistakes_of("u01-attention-flops")),
    fallback="course_utils.formulas.flops.attention_flops",
    answers=COUNTERS,
)
