"""Check of the FLOPs of a gated feed-forward block."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u01.shared.counts import (
    AS_FLOAT32,
    COUNTERS,
    just_above,
    meta,
    one_at_a_time,
    one_layer,
)
from course_utils.instruments import count_flops
from course_utils.reference.layers import FeedForward


def mlp_cases(seed: int) -> list[Case]:
    """One token and many; square and odd sizes; real layers; beyond a float and 64 bits."""
    rng = random.Random(seed)
    names = "num_tokens", "hidden_size", "ffn_size"
    sizes = [(1, 2, 3), (1, rng.randrange(3, 99, 2), rng.randrange(3, 99, 2))]
    square = rng.randint(2, 99)
    sizes.append((rng.randint(2, 99), square, square))
    sizes += [(rng.randint(2, 99), rng.randint(2, 99), rng.randint(2, 99)) for _ in range(13)]
    sizes += [(rng.randint(1, 99) * 64, 4096, 14336), (rng.randint(1, 64) * 1024, 2048, 8192)]
    sizes += [(just_above(21, rng), just_above(22, rng), just_above(22, rng))]
    cases = [dict(zip(names, each, strict=True)) for each in sizes]
    first, last = rng.randint(2, 49), rng.randint(50, 99)
    return [*cases, *one_at_a_time(dict.fromkeys(names, first), dict.fromkeys(names, last))]


def measured_mlp_flops(num_tokens: int, hidden_size: int, ffn_size: int) -> int:
    """The gated block, counted on the meta device."""
    model = one_layer(hidden_size, ffn_size=ffn_size)
    block = FeedForward(model, ffn_size, "meta")
    return count_flops(lambda: block(meta(num_tokens, hidden_size))).forward_flops


ALL_PRODUCTS, ONE_PRODUCT = "3 * one_product", "2 * num_tokens * hidden_size * ffn_size"
EDITS = (
    Edit(AS_FLOAT32, {ONE_PRODUCT: f"int(torch.tensor(1.0 * {ONE_PRODUCT}))"}),
    Edit(
        "That is two products. How many matrices does a gated block have?",
        {ALL_PRODUCTS: "2 * one_product"},
    ),
    Edit(
        "Exactly half. What does a matrix product do besides multiplying?",
        {"2 * num_tokens": "num_tokens"},
    ),
    Edit(
        "You use 4 h as the inner width. Which argument gives the inner width?",
        {"hidden_size * ffn_size": "hidden_size * 4 * hidden_size"},
    ),
    Edit(
        "You take two thirds of ffn_size. Which width does ffn_size already stand for?",
        {"hidden_size * ffn_size": "hidden_size * (2 * ffn_size // 3)"},
    ),
    Edit(
        "That is the count for training. Which passes does the exercise ask for?",
        {"3 * one": "9 * one"},
    ),
    Edit(
        "That is the count for one token. How many go through the block?", {"2 * num_tokens": "2"}
    ),
    *(
        Edit(
            "You also count the elementwise operations. What does the exercise say about "
            "activation and gating?",
            {ALL_PRODUCTS: f"{ALL_PRODUCTS} + {each} * num_tokens * ffn_size"},
        )
        for each in (1, 2, 3, 4, 5, 6)
    ),
)

CHECK = Check(
    cases=mlp_cases,
    judge=EqualTo(measured_mlp_flops, *edited("u01-gated-mlp-flops", EDITS)),
    fallback="course_utils.formulas.flops.gated_mlp_flops",
    answers=COUNTERS,
)
