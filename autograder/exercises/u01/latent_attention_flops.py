"""Check of the FLOPs of multi-head latent attention."""

import random
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    just_above,
    meta,
    one_at_a_time,
)
from course_utils.instruments import count_flops
from course_utils.reference.layers import MultiHeadLatentAttention, attend

NAMES = ("q_rank", "kv_rank", "nope_head_dim", "rope_head_dim", "value_head_dim")


def latent_cases(seed: int) -> list[Case]:
    """One head and many, one sequence and several, values narrower and wider than keys.

    Then each size is changed by itself. The two counts of the last case are beyond a float and 64
    bits.
    """
    rng = random.Random(seed)
    cases: list[Case] = [_case((2, 8), (3, 5, 4, 2, 3), (1, 2))]
    for num_heads in (1, rng.randint(2, 9), rng.randint(10, 16)):
        for value in (rng.randint(3, 9), rng.randint(30, 40)):
            for num_sequences in (1, rng.randint(2, 4), rng.randint(5, 9)):
                ranks = rng.randint(2, 15), rng.randint(2, 15)
                widths = rng.randint(10, 15), 2 * rng.randint(1, 7), value
                hidden_size = num_heads * rng.randint(17, 41)
                batch = num_sequences, rng.randrange(3, 199, 2)
                cases.append(_case((num_heads, hidden_size), (*ranks, *widths), batch))
    deepseek_v3 = (128, 7168), (1536, 512, 128, 64, 128)
    four = rng.sample(range(2, 16), 4)
    start = _case((2, 24), (*four[:2], 5, 4, 3), (2, 9))
    end = _case((3, 48), (*four[2:], 7, 6, 8), (3, 11))
    beyond = _case((1026, 1026 * 1025), (1537, 512, 127, 64, 128), (257, just_above(20, rng)))
    real = _case(*deepseek_v3, (rng.randint(1, 3), 4096))
    return [*cases, real, *one_at_a_time(start, end), beyond]


def _case(heads: tuple[int, int], latent: tuple[int, ...], batch: tuple[int, int]) -> Case:
    """One layer: heads and width; the sizes of `NAMES`; sequences and their length."""
    model = {
        **{"num_layers": 1, "hidden_size": heads[1], "num_heads": heads[0]},
        **{"ffn_size": 1, "vocab_size": 1},
        "latent_attention": dict(zip(NAMES, latent, strict=True)),
    }
    return {"model": model, "num_sequences": batch[0], "seq_len": batch[1]}


def measured_latent_flops(
    model: dict[str, Any], num_sequences: int, seq_len: int
) -> dict[str, int]:
    """The whole attention module and its core alone, counted on the meta device."""
    config = model_of(model)
    sizes = config.latent_attention
    assert sizes is not None
    attention = MultiHeadLatentAttention(config, sizes, "meta")
    whole = count_flops(lambda: attention(meta(num_sequences, seq_len, config.hidden_size)))
    heads = (num_sequences, seq_len, config.num_heads)
    q = k = meta(*heads, sizes.nope_head_dim + sizes.rope_head_dim)
    v = meta(*heads, sizes.value_head_dim)
    core = count_flops(lambda: attend(q, k, v)).forward_flops
    return {"projection_flops": whole.forward_flops - core, "core_flops": core}


TO_QUERY, TO_LATENT = "h * sizes.q_rank + ", "h * (sizes.kv_rank + sizes.rope_head_dim)"
QUERY_HEADS, PAIRS = "heads * key_width", "num_sequences * heads * seq_len**2"
KEY_AND_VALUE = "(sizes.nope_head_dim + sizes.value_head_dim)"
CORE = "(key_width + sizes.value_head_dim)"
NO_ROTARY_QUERY = (
    "Your projections leave out the rotary part of the queries. What does the rotary key get "
    "multiplied with, and which matrices make the two?"
)
NEVER_MADE = (
    "Your heads are made from a narrow vector that nothing computes. Which matrices lead from x "
    "to the narrow vectors?"
)
THROUGH_THE_LATENT_VECTOR = (
    "You make the rotary part of the key from the latent vector. Which vector does the exercise "
    "make it from?"
)
MISTAKES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "You make one rotary key per head. How many does the exercise make?",
        {TO_LATENT: "h * (sizes.kv_rank + heads * sizes.rope_head_dim)"},
    ),
    (
        "Your projections leave out the rotary key. Which vector is it made from, and how wide "
        "is it?",
        {TO_LATENT: "h * sizes.kv_rank"},
    ),
    (NO_ROTARY_QUERY, {QUERY_HEADS: "heads * sizes.nope_head_dim"}),
    (
        NO_ROTARY_QUERY,
        {QUERY_HEADS: "heads * sizes.nope_head_dim", TO_LATENT: "h * sizes.kv_rank"},
    ),
    (NEVER_MADE, {TO_QUERY: ""}),
    (NEVER_MADE, {TO_LATENT: "h * sizes.rope_head_dim"}),
    (NEVER_MADE, {TO_LATENT: "0"}),
    (NEVER_MADE, {TO_QUERY: "", TO_LATENT: "h * sizes.rope_head_dim"}),
    (NEVER_MADE, {TO_QUERY: "", TO_LATENT: "0"}),
    (THROUGH_THE_LATENT_VECTOR, {KEY_AND_VALUE: CORE}),
    (THROUGH_THE_LATENT_VECTOR, {KEY_AND_VALUE: CORE, TO_LATENT: "h * sizes.kv_rank"}),
    (
        "You compute the latent vector but never turn it into keys and values. Which matrix "
        "does that?",
        {f"sizes.kv_rank * heads * {KEY_AND_VALUE}": "0"},
    ),
    (
        "Your queries go straight from x to the heads. Which narrow vector does the exercise "
        "put in between?",
        {f"{TO_QUERY}sizes.q_rank * heads": "h * heads"},
    ),
    (
        "One projection is missing. What happens after the heads are put back together?",
        {" + output": ""},
    ),
    (
        "Your projections are those of one head. How many heads are there?",
        {
            QUERY_HEADS: "key_width",
            f"heads * {KEY_AND_VALUE}": KEY_AND_VALUE,
            "heads * sizes.value_head_dim * h": "sizes.value_head_dim * h",
        },
    ),
    (
        "Your output projection reads h numbers. How wide are all value heads together?",
        {"heads * sizes.value_head_dim * h": "h * h"},
    ),
    (
        "Your output projection reads heads as wide as the key's part without position. What are "
        "the scores multiplied by, and how wide is that?",
        {"heads * sizes.value_head_dim * h": "heads * sizes.nope_head_dim * h"},
    ),
    (
        "Your output projection reads heads as wide as the keys. What are the scores multiplied "
        "by, and how wide is that?",
        {"heads * sizes.value_head_dim * h": "heads * key_width * h"},
    ),
    (
        "You project the tokens of only one sequence. How many sequences are there?",
        {"num_sequences * seq_len * weights": "seq_len * weights"},
    ),
    (
        "Both products of your core are as wide as the keys. How wide is a value head?",
        {CORE: "2 * key_width"},
    ),
    (
        "Your scores leave out the rotary part. What else would a rotary key be for?",
        {CORE: KEY_AND_VALUE},
    ),
    (
        "Your core is only the scores. What are they multiplied by?",
        {CORE: "key_width"},
    ),
    (
        "You square the tokens of the whole batch. Does a token look at other sequences?",
        {PAIRS: "heads * (num_sequences * seq_len) ** 2"},
    ),
    (
        "Your core is that of one sequence. How many sequences are there?",
        {PAIRS: "heads * seq_len**2"},
    ),
    (
        "Your core is that of one head. How many heads compute scores?",
        {PAIRS: "num_sequences * seq_len**2"},
    ),
    (
        "That is the core over the latent vectors, as inference computes it. How wide are keys "
        "and values in training?",
        {CORE: "(2 * sizes.kv_rank + sizes.rope_head_dim)"},
    ),
)
PROJECTIONS_FLOPS = "2 * num_sequences * seq_len * weights"
CORE_FLOPS = f"2 * pairs * {CORE}"
EDITS = [
    Edit(
        "Your values are as wide as the part of the key without position. Which size gives the "
        "width of a value?",
        {
            KEY_AND_VALUE: "2 * sizes.nope_head_dim",
            "heads * sizes.value_head_dim": "heads * sizes.nope_head_dim",
            CORE: "(key_width + sizes.nope_head_dim)",
        },
    ),
    *(Edit(hint, pieces, points=1.0) for hint, pieces in MISTAKES),
]

CHECK = Check(
    cases=latent_cases,
    judge=EqualTo(measured_latent_flops, *edited("u01-latent-attention-flops", EDITS)),
    fallback="course_utils.formulas.designs.latent_attention_flops",
    answers=(*COUNTERS, "course_utils.reference.layers.MultiHeadLatentAttention"),
)
