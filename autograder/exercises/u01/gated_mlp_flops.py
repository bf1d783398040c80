"""Check of the FLOPs of a gated feed-forward block."""

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
from course_utils.reference.layers import FeedForward


def mlp_cases(seed: int) -> list[Case]:
    """One token and many; square and odd sizes; real layers; beyond a float and 64 bits."""
    rng = random.Random(seed)
    names = "num_tokens", "hidden_size", "ffn_size"
    sizes = [(1, 2, 3), (1, rng.randrange(3, 99, 2), rng.randrange(3, 99, 2))]
    num_tokens, width = rng.randint(2, 99), rng.randint(2, 99)
    sizes.append((num_tokens, width, width))
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


CHECK = Check(
    cases=mlp_cases,
    judge=EqualTo(measured_mlp_flops, *mistakes_of("u01-gated-mlp-flops")),
    fallback="course_utils.formulas.flops.gated_mlp_flops",
    answers=COUNTERS,
)
