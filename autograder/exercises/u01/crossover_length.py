"""Check of the length at which attention costs as much as the rest."""

import bisect
import random
from collections.abc import Iterator
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, each_also, edited
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    HIDDEN_SIZE_FOR_WIDTH,
    SMALLEST,
    WIDTH_FOR_HIDDEN_SIZE,
    counted_core,
    hidden_size_for_width,
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


PROJECTIONS, FEED_FORWARD, CORE = "4 * h * (width + shared_width)", "6 * h", "core = 4 * width"
RECAP = "(h * (1 + model.num_kv_heads / model.num_heads) + 1.5 * model.ffn_size)"
IN_FLOATS = RECAP.replace("ffn_size", "ffn_size * h / width")
SUM_OF_FLOATS = (
    "h * (1 + model.num_kv_heads / model.num_heads) "
    "+ 1.5 * model.ffn_size * (h / (model.num_heads * model.head_dim))"
)
LENGTH, DOWN = "length + (left_over > 0)", {" + (left_over > 0)": ""}
IN_REST = "Your rest includes the output head. Is it part of a layer?"
LACKS_A_MATRIX = (
    "Your feed-forward block is missing a matrix or two. How many does a gated block have?"
)
EITHER_ROUNDING = (
    Edit(
        "You compare with the feed-forward block alone. What else grows linearly?",
        {f"{PROJECTIONS} + ": ""},
    ),
    Edit(
        "You compare with the projections alone. What else grows linearly?",
        {" + 6 * h * model.ffn_size": ""},
    ),
    Edit(
        "Your keys and values are as wide as the queries. How many heads do they have?",
        {"model.num_kv_heads": "model.num_heads"},
    ),
    Edit(
        "Where heads share keys and values, yours cost nothing, because 2 // 8 is 0. Which "
        "operation has to come before that division?",
        {"width + shared_width": "width * (1 + model.num_kv_heads // model.num_heads)"},
    ),
    Edit(
        "You count only the projections of queries and output. Which others are there?",
        {" + shared_width": ""},
    ),
    Edit(
        "You use the size of a group instead of the number of groups. Which of the two is the "
        "number of key-value heads?",
        {"model.num_kv_heads": "model.num_heads // model.num_kv_heads"},
    ),
    Edit(
        "Your rest is that of training, your core that of inference. Which passes does the "
        "exercise count on both sides?",
        {"divmod(rest": "divmod(3 * rest"},
    ),
    Edit(LACKS_A_MATRIX, {FEED_FORWARD: "2 * h"}),
    Edit(LACKS_A_MATRIX, {FEED_FORWARD: "4 * h"}),
    Edit(
        "Your core counts only the key-value heads. Do fewer query heads compute scores when "
        "they share keys?",
        {CORE: "core = 4 * shared_width"},
    ),
    Edit(WIDTH_FOR_HIDDEN_SIZE, {PROJECTIONS: "4 * width * (width + shared_width)"}),
    *hidden_size_for_width({CORE: "core = 4 * h"}),
)
HALF_OF_THE_CORE = Edit(
    "Your core is exactly half. Is it one of the two products, the additions or the masked "
    "pairs that you leave out?",
    {CORE: "core = 2 * width"},
)
EDITS = (
    Edit(
        "That is the slide's 4 D. What do you get when you write out both sides of the comparison?",
        {LENGTH: "4 * h"},
    ),
    *each_also(EITHER_ROUNDING, DOWN),
    Edit(HIDDEN_SIZE_FOR_WIDTH, {LENGTH: f"-int(-{RECAP} // 1)"}),
    *(
        Edit(
            "Where the right length is large, you give a round number. Does your search end too "
            "early?",
            {LENGTH: f"min({LENGTH}, 10**{digits})"},
        )
        for digits in (5, 6, 7)
    ),
    Edit(IN_REST, {"model.ffn_size": "model.ffn_size + 2 * h * model.vocab_size"}),
    Edit(
        IN_REST,
        {
            "rest, core": "model.num_layers * rest + 2 * h * model.vocab_size, "
            "model.num_layers * core"
        },
    ),
    Edit(
        'You go one token too far where the two sides are exactly equal. What does "at least as '
        'many" say about a tie?',
        {LENGTH: "length + 1"},
    ),
    Edit(
        'You go one token too far where floats miss an exact tie. What does "at least as many" '
        "say about a tie, and which division of whole numbers finds it?",
        {LENGTH: f"-int(-({SUM_OF_FLOATS}) // 1)"},
    ),
    Edit(
        "You round to the nearest length, which may be one too short. Has attention caught up "
        "at a length just below the exact one?",
        {LENGTH: "round(rest / core)"},
    ),
    Edit(
        "You round to the nearest length, which may be one too short. Has attention caught up "
        "at a length just below the exact one?",
        {LENGTH: "int(rest / core + 0.5)"},
    ),
    Edit(
        "You round down, to a length at which attention is still behind. Which is the first "
        "whole length at which it has caught up?",
        DOWN,
    ),
    *each_also([HALF_OF_THE_CORE], DOWN),
    Edit(HALF_OF_THE_CORE.hint, {LENGTH: f"-int(-2 * {IN_FLOATS} // 1)"}),
    Edit(
        "You count only the pairs that a causal mask leaves. Which pairs does the convention "
        "count?",
        {CORE: "core = 2 * width", LENGTH: "length - 1 + (left_over > 0)"},
    ),
)

CHECK = Check(
    cases=crossover_cases,
    judge=EqualTo(searched_crossover, *edited("u01-crossover-length", EDITS)),
    fallback="course_utils.formulas.flops.crossover_length",
    answers=COUNTERS,
)
