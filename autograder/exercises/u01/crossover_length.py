"""Check of the length at which attention costs as much as the rest."""

import bisect
import random
from collections.abc import Callable
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared.counts import SMALLEST, counted_core, meta
from course_utils.configs import ModelConfig, preset
from course_utils.formulas import flops
from course_utils.instruments import count_flops
from course_utils.reference import Block


def crossover_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query and multi-query attention; narrow and wide blocks; real models."""
    rng = random.Random(seed)
    cases: list[Case] = [{"model": SMALLEST}]
    for kv, group in ((4, 1), (8, 1), (2, 4), (3, 2), (1, 8), (1, 6)):
        for ffn_ratio in (1, 2.5, 4):
            hidden_size = kv * group * 8 * rng.randint(1, 9)
            cases.append(
                {
                    "model": {
                        **{"num_layers": rng.randint(1, 9), "hidden_size": hidden_size},
                        **{"num_heads": kv * group, "num_kv_heads": kv},
                        **{"ffn_size": int(hidden_size * ffn_ratio) + rng.choice((1, 3))},
                        "vocab_size": rng.randint(10, 999),
                    }
                }
            )
    for name in ("Llama-3.2-1B", "Llama-3-8B", "Llama-3-70B"):
        model = preset(name)
        names = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "ffn_size", "vocab_size")
        cases.append({"model": {each: getattr(model, each) for each in names}})
    return cases


def searched_crossover(model: dict[str, Any]) -> int:
    """The same length by bisection, from FLOPs counted for one token; checked at the result.

    Raises:
        RuntimeError: If the counted core does not grow with the square of the length.
    """
    sizes = model_of(model)
    core = counted_core(sizes, 1)
    block = Block(sizes, 0, "meta")
    rest = count_flops(lambda: block(meta(1, 1, sizes.hidden_size))).forward_flops - core
    found = 1 + bisect.bisect_left(range(1, 2**22), True, key=lambda s: core * s * s >= rest * s)
    if counted_core(sizes, found) != core * found * found:
        raise RuntimeError(f"the attention of {model} does not grow with the square of its length")
    return found


def crossover_length(model: ModelConfig) -> int:
    """The course's own answer: where core and rest are equal, rounded up."""
    return -(-_rest(model) // flops.attention_core_flops(model, 1, 1))


def _rest(model: ModelConfig) -> int:
    """FLOPs of one token in a layer, without the attention core."""
    return flops.projection_flops_per_token(model) + flops.feed_forward_flops_per_token(model, 0)


def _rounded_down(model: dict[str, Any]) -> int:
    sizes = model_of(model)
    return _rest(sizes) // flops.attention_core_flops(sizes, 1, 1)


def _with_head(layers_share_it: bool) -> Callable[..., int]:
    """The head counted in the rest, of one layer or of all layers together."""

    def formula(model: dict[str, Any]) -> int:
        sizes = model_of(model)
        layers = sizes.num_layers if layers_share_it else 1
        rest = layers * _rest(sizes) + 2 * sizes.hidden_size * sizes.vocab_size
        return -(-rest // (layers * flops.attention_core_flops(sizes, 1, 1)))

    return formula


def _crossing(rest: Callable[[ModelConfig], int], core: int = 4) -> Callable[..., int]:
    """The crossover with another rest, or another factor of the core."""

    def formula(model: dict[str, Any]) -> int:
        sizes = model_of(model)
        return -(-rest(sizes) // (core * sizes.num_heads * sizes.head_dim))

    return formula


CHECK = Check(
    cases=crossover_cases,
    reference=crossover_length,
    judge=EqualTo(
        searched_crossover,
        Mistake(
            "That is the slide's L < 4 D. What does the comparison give when you write out both "
            "sides?",
            lambda model: 4 * model["hidden_size"],
        ),
        Mistake(
            "You compare with the feed-forward block alone. What else grows linearly?",
            _crossing(lambda m: 6 * m.hidden_size * m.ffn_size),
        ),
        Mistake(
            "You compare with the projections alone. What else grows linearly?",
            _crossing(flops.projection_flops_per_token),
        ),
        Mistake(
            "You count keys and values as wide as queries. How many heads do they have?",
            _crossing(lambda m: 8 * m.hidden_size**2 + 6 * m.hidden_size * m.ffn_size),
        ),
        *(
            Mistake(
                "The output head is in your rest. Is it a part of a layer?",
                _with_head(layers_share_it),
            )
            for layers_share_it in (False, True)
        ),
        Mistake(
            'You go one length too far where the two sides meet exactly. What does "at least as '
            'many" say about a tie?',
            lambda model: _rounded_down(model) + 1,
        ),
        Mistake(
            "You rounded down, to a length at which the rest still leads. Which whole length is "
            "the first at which attention has caught up?",
            _rounded_down,
        ),
        Mistake(
            "Half of the core. How many products are in it, and how many operations is a "
            "multiply-and-add?",
            _crossing(_rest, core=2),
        ),
    ),
)
