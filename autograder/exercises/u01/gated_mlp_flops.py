"""Check of the FLOPs of a gated feed-forward block."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared.counts import meta, one_layer
from course_utils.formulas import flops
from course_utils.instruments import count_flops
from course_utils.reference.layers import FeedForward


def mlp_cases(seed: int) -> list[Case]:
    """One token and many; square and odd sizes; real layers."""
    rng = random.Random(seed)
    sizes = [(1, 2, 3), (1, rng.randrange(3, 99, 2), rng.randrange(3, 99, 2)), (7, 8, 8)]
    sizes += [(rng.randint(2, 99), rng.randint(2, 99), rng.randint(2, 99)) for _ in range(16)]
    sizes += [(4096, 4096, 14336), (rng.randint(1, 64) * 1024, 2048, 8192)]
    return [
        dict(zip(("num_tokens", "hidden_size", "ffn_size"), each, strict=True)) for each in sizes
    ]


def measured_mlp_flops(num_tokens: int, hidden_size: int, ffn_size: int) -> int:
    """The gated block, counted on the meta device."""
    model = one_layer(hidden_size, ffn_size=ffn_size)
    block = FeedForward(model, ffn_size, "meta")
    return count_flops(lambda: block(meta(num_tokens, hidden_size))).forward_flops


def gated_mlp_flops(num_tokens: int, hidden_size: int, ffn_size: int) -> int:
    """The course's own answer, under the name that the exercise asks for."""
    model = one_layer(hidden_size, ffn_size=ffn_size)
    return num_tokens * flops.feed_forward_flops_per_token(model, layer=0)


CHECK = Check(
    cases=mlp_cases,
    reference=gated_mlp_flops,
    judge=EqualTo(
        measured_mlp_flops,
        Mistake(
            "That is two products. Which three matrices does the exercise name?",
            lambda t, h, f: 4 * t * h * f,
        ),
        Mistake(
            "Exactly half. What does a matrix product do besides multiplying?",
            lambda t, h, f: 3 * t * h * f,
        ),
        Mistake(
            "You take f for 4 h. Which argument says how wide the block is inside?",
            lambda t, h, f: 24 * t * h * h,
        ),
        Mistake(
            "That is what training takes. Which passes are asked for?",
            lambda t, h, f: 18 * t * h * f,
        ),
        Mistake(
            "That is one token. How many go through the block?",
            lambda t, h, f: 6 * h * f,
        ),
        *(
            Mistake(
                "You count what happens between the products, element by element. What does the "
                "exercise say of activation and gating?",
                lambda t, h, f, each=each: t * f * (6 * h + each),
            )
            for each in (1, 2, 3, 4, 5, 6)
        ),
    ),
)
