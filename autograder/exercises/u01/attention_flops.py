"""Check of the FLOPs of one layer's attention."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared.counts import meta, one_layer
from course_utils.formulas import flops
from course_utils.instruments import count_flops
from course_utils.reference.layers import GroupedAttention, attend


def attention_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query and multi-query attention; batches; odd lengths, one token."""
    rng = random.Random(seed)
    first = {"num_sequences": 1, "seq_len": 3, "num_heads": 2, "num_kv_heads": 1, "head_dim": 4}
    cases = [first, first | {"seq_len": 1, "num_kv_heads": 2}]
    for kind in ("multi-head", "grouped-query", "multi-query"):
        for num_sequences in (1, 1, rng.randint(2, 9), rng.randint(2, 9)):
            kv, group = rng.choice(((1, rng.randint(2, 9)), (rng.randint(2, 5), rng.randint(2, 5))))
            if kind == "multi-head":
                kv, group = kv * group, 1
            else:
                kv, group = (1, kv * group) if kind == "multi-query" else (2, group)
            sizes = (num_sequences, rng.randrange(5, 300, 2), kv * group, kv)
            cases.append(dict(zip(first, (*sizes, rng.choice((4, 6, 8))), strict=True)))
    llama = dict(zip(first, (2, rng.choice((2048, 4096)), 32, 8, 128), strict=True))
    large = dict(zip(first, (rng.randint(1, 4), 8192, 64, 8, 128), strict=True))
    return [
        *cases,
        llama,
        large,
        *(c | {"seq_len": rng.randrange(301, 999, 2)} for c in cases[-5:]),
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


def attention_flops(
    num_sequences: int, seq_len: int, num_heads: int, num_kv_heads: int, head_dim: int
) -> dict[str, int]:
    """The course's own answer, under the name that the exercise asks for."""
    model = one_layer(num_heads * head_dim, num_heads=num_heads, num_kv_heads=num_kv_heads)
    tokens = num_sequences * seq_len
    return {
        "projection_flops": tokens * flops.projection_flops_per_token(model),
        "core_flops": flops.attention_core_flops(model, num_sequences, seq_len),
    }


CHECK = Check(
    cases=attention_cases,
    reference=attention_flops,
    judge=EqualTo(
        measured_attention_flops,
        Mistake(
            "You count keys and values as wide as queries. How many heads do they have?",
            lambda b, s, a, kv, d: {"projection_flops": 8 * b * s * (a * d) ** 2},
        ),
        Mistake(
            "Exactly half of the projections. What does a matrix product do besides multiplying?",
            lambda b, s, a, kv, d: {"projection_flops": b * s * a * d * (2 * a * d + 2 * kv * d)},
        ),
        Mistake(
            "One of the four projections is missing. What happens after the heads are put "
            "together again?",
            lambda b, s, a, kv, d: {"projection_flops": 2 * b * s * a * d * (a * d + 2 * kv * d)},
        ),
        Mistake(
            "You project the tokens of one sequence. How many sequences are there?",
            lambda b, s, a, kv, d: {
                "projection_flops": 4 * s * a * d * (a * d + kv * d),
            },
        ),
        Mistake(
            "Shared keys and values save memory. Does a query head meet fewer tokens because of "
            "it?",
            lambda b, s, a, kv, d: {"core_flops": 4 * b * kv * s * s * d},
        ),
        Mistake(
            "You square the tokens of the whole batch. Does a token look at other sequences?",
            lambda b, s, a, kv, d: {"core_flops": 4 * a * (b * s) ** 2 * d},
        ),
        Mistake(
            "Half of the core. How many products are in it, how many operations is a "
            "multiply-and-add, and which pairs does the convention count under a causal mask?",
            lambda b, s, a, kv, d: {"core_flops": 2 * b * a * s * s * d},
        ),
        Mistake(
            "You count the pairs that a causal mask leaves. Which pairs does the convention count?",
            lambda b, s, a, kv, d: {"core_flops": 2 * b * a * s * (s + 1) * d},
        ),
        *(
            Mistake(
                "Your core holds a little for each score beside the two products. What does the "
                "convention say of the softmax?",
                lambda b, s, a, kv, d, each=each: {"core_flops": b * a * s * s * (4 * d + each)},
            )
            for each in (1, 2, 3, 4, 5)
        ),
        Mistake(
            "You leave the number of sequences out. Does each of them cost the same again?",
            lambda b, s, a, kv, d: {"core_flops": 4 * a * s * s * d},
        ),
        Mistake(
            "You count one head. How many heads compute scores?",
            lambda b, s, a, kv, d: {"core_flops": 4 * b * s * s * d},
        ),
    ),
)
