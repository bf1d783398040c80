"""Check of the FLOPs of one layer's attention."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


QUERY_AND_OUTPUT = "2 * (2 * tokens * width * width)"
KEY_AND_VALUE = "2 * (2 * tokens * width * shared_width)"
ALL_HEADS, CORE = "num_sequences * num_heads * (", "2 * scores"
EDITS = (
    Edit(
        "A ratio such as 1 / 49 is not exact in a float, and int() cuts off the rest. How can "
        "you order the operations so that no division is needed?",
        {"num_kv_heads * head_dim": "int(width * (num_kv_heads / num_heads))"},
        points=1.0,
    ),
    Edit(
        "You use the size of a group instead of the number of groups. Which of the two is the "
        "number of key-value heads?",
        {"num_kv_heads * head_dim": "num_heads // num_kv_heads * head_dim"},
        points=1.0,
    ),
    Edit(
        "You count three matrices, all as wide as the queries. What is the fourth, and how wide "
        "are shared keys and values?",
        {
            QUERY_AND_OUTPUT: "2 * tokens * width * width",
            "num_kv_heads * head_dim": "num_heads * head_dim",
        },
        points=1.0,
    ),
    Edit(
        "For a single token, your core is 0. Which key does its query meet?",
        {CORE: f"{CORE} * (seq_len > 1)"},
        points=1.0,
    ),
    Edit(
        "You count only the pairs that a causal mask leaves. Which pairs does the convention "
        "count?",
        {"head_dim * seq_len)": "head_dim * (seq_len - 1) // 2)"},
        points=1.0,
    ),
    Edit(
        "Your keys and values are as wide as the queries. How many heads do they have?",
        {"num_kv_heads * head_dim": "num_heads * head_dim"},
        points=1.0,
    ),
    Edit(
        "Your projections are exactly half. What does a matrix product do besides multiplying?",
        {
            QUERY_AND_OUTPUT: "2 * tokens * width * width",
            KEY_AND_VALUE: "2 * tokens * width * shared_width",
        },
        points=1.0,
    ),
    Edit(
        "One of the four projections is missing. What happens after the heads are put back "
        "together?",
        {QUERY_AND_OUTPUT: "2 * tokens * width * width"},
        points=1.0,
    ),
    Edit(
        "You project the tokens of only one sequence. How many sequences are there?",
        {"= num_sequences * seq_len": "= seq_len"},
        points=1.0,
    ),
    Edit(
        "Your core counts only the key-value heads. Do fewer query heads compute scores when "
        "they share keys?",
        {ALL_HEADS: "num_sequences * num_kv_heads * ("},
        points=1.0,
    ),
    Edit(
        "You square the tokens of the whole batch. Does a token look at other sequences?",
        {f"{ALL_HEADS}2 * seq_len * head_dim * seq_len": "num_heads * (2 * tokens**2 * head_dim"},
        points=1.0,
    ),
    Edit(
        "Your core is exactly half. Is it one of the two products, the additions or the masked "
        "pairs that you leave out?",
        {CORE: "scores"},
        points=1.0,
    ),
    Edit(
        "You count only the pairs that a causal mask leaves. Which pairs does the convention "
        "count?",
        {"head_dim * seq_len)": "head_dim * (seq_len + 1) // 2)"},
        points=1.0,
    ),
    *(
        Edit(
            "Your core adds a little for each score on top of the two products. What does the "
            "convention say about the softmax?",
            {CORE: f"{CORE} + {each} * num_sequences * num_heads * seq_len**2"},
            points=1.0,
        )
        for each in (1, 2, 3, 4, 5)
    ),
    Edit(
        "Your core is that of one sequence. How many sequences are there?",
        {ALL_HEADS: "num_heads * ("},
        points=1.0,
    ),
    Edit(
        "Your core is that of one head. How many heads compute scores?",
        {ALL_HEADS: "num_sequences * ("},
        points=1.0,
    ),
)

CHECK = Check(
    cases=attention_cases,
    judge=EqualTo(measured_attention_flops, *edited("u01-attention-flops", EDITS)),
    fallback="course_utils.formulas.flops.attention_flops",
    answers=COUNTERS,
)
