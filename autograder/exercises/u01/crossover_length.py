"""Check of the length at which attention costs as much as the rest."""

import bisect
import random
from collections.abc import Iterator
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    SMALLEST,
    counted_core,
    meta,
    models_to_vary,
    one_at_a_time,
    with_own_head_dim,
)
from course_utils.configs import preset
from course_utils.instruments import count_flops
from course_utils.reference import Block


def crossover_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query and multi-query attention; narrow and wide heads and blocks.

    Some meet at a whole length where floats come out above it; one meets beyond 10**7 tokens, one
    less than a thousandth of a token behind a whole length.
    """
    rng = random.Random(seed)
    cases: list[Case] = [{"model": SMALLEST}]
    # 9.8 and 9.29 tokens: the nearest whole length is the next one, and the one before.
    for head_dim in (10, 14):
        others = {"num_layers": rng.randint(2, 50), "vocab_size": rng.randint(5, 999)}
        cases.append({"model": SMALLEST | others | {"head_dim": head_dim}})
    for kv, group in ((4, 1), (8, 1), (2, 4), (3, 2), (1, 8), (1, 6)):
        for ffn_ratio in (1, 2.5, 4):
            hidden_size = kv * group * 8 * rng.randint(1, 9)
            model = {
                **{"num_layers": rng.randint(1, 9), "hidden_size": hidden_size},
                **{"num_heads": kv * group, "num_kv_heads": kv},
                **{"ffn_size": int(hidden_size * ffn_ratio) + rng.choice((1, 3))},
                "vocab_size": rng.randint(10, 999),
            }
            if ffn_ratio == 2.5:
                model = with_own_head_dim(model, is_wider=group > 1)
            cases.append({"model": model})
    for name in ("Llama-3.2-1B", "Llama-3-8B", "Llama-3-70B"):
        real = preset(name)
        names = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "ffn_size", "vocab_size")
        others = {"num_layers": rng.randint(4, 99)}
        cases.append({"model": {each: getattr(real, each) for each in names} | others})
    one_narrow_head = {"num_heads": 1, "num_kv_heads": 1, "head_dim": 64}
    far = {"hidden_size": 16384, "ffn_size": 32768 + rng.randrange(1, 99, 2)}
    cases.append({"model": SMALLEST | one_narrow_head | far})
    hardly_more = {"hidden_size": 4097, "ffn_size": 8192 * rng.randint(1, 3) + 2}
    heads = {"num_heads": 32, "num_kv_heads": 32, "head_dim": 128}
    cases.append({"model": SMALLEST | heads | hardly_more})
    start, end = models_to_vary(rng)
    varied = one_at_a_time({"model": start | {"head_dim": 8}}, {"model": end | {"head_dim": 10}})
    return [*cases, *({"model": SMALLEST | each} for each in _ties(rng)), *varied]


def _ties(rng: random.Random) -> Iterator[dict[str, int]]:
    """Sizes that meet at a whole length, which floats miss however the formula is written.

    Sizes times a power of two are rounded in the same places.
    """
    for heads, hidden_size, ffn_size in (((10, 1, 36), 745, 24), ((3, 1, 12), 596, 178)):
        times = 2 ** rng.randint(0, 4)
        yield {
            **dict(zip(("num_heads", "num_kv_heads", "head_dim"), heads, strict=True)),
            **{"hidden_size": times * hidden_size, "ffn_size": ffn_size},
        }


def searched_crossover(model: dict[str, Any]) -> int:
    """The same length by bisection, from FLOPs counted for one token; checked at the result.

    Raises:
        RuntimeError: If the counted core does not grow with the square of the length.
    """
    sizes = model_of(model)
    core = counted_core(sizes, 1)
    block = Block(sizes, 0, "meta")
    rest = count_flops(lambda: block(meta(1, 1, sizes.hidden_size))).forward_flops - core
    found = 1 + bisect.bisect_left(range(1, 2**40), True, key=lambda s: core * s * s >= rest * s)
    if counted_core(sizes, found) != core * found * found:
        raise RuntimeError(f"the attention of {model} does not grow with the square of its length")
    return found


CHECK = Check(
    cases=crossover_cases,
    judge=EqualTo(searched_crossover, *mistakes_of("u01-crossover-length")),
    fallback="course_utils.formulas.flops.crossover_length",
    answers=COUNTERS,
)
