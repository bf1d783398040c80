"""Check of the FLOPs of multi-head latent attention."""

import random
from collections.abc import Callable
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared.counts import meta
from course_utils.configs import ModelConfig
from course_utils.formulas import flops
from course_utils.instruments import count_flops
from course_utils.reference.layers import MultiHeadLatentAttention, attend

NAMES = ("q_rank", "kv_rank", "nope_head_dim", "rope_head_dim", "value_head_dim")

Formula = Callable[[int, int, int, int, int, int, int], int]
"""Of h, a, the ranks q and k, and the widths n, r and v, in the order of `_letters`."""


def latent_cases(seed: int) -> list[Case]:
    """One head and many, one sequence and several, values narrower and wider than keys."""
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
    return [*cases, _case(*deepseek_v3, (rng.randint(1, 3), 4096))]


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


def latent_attention_flops(model: ModelConfig, num_sequences: int, seq_len: int) -> dict[str, int]:
    """The course's own answer, under the name that the exercise asks for."""
    tokens = num_sequences * seq_len
    return {
        "projection_flops": tokens * flops.projection_flops_per_token(model),
        "core_flops": flops.attention_core_flops(model, num_sequences, seq_len),
    }


def _projections(weights: Formula) -> Callable[..., dict[str, int]]:
    """FLOPs of the projections, from the number of their weights."""

    def formula(model: dict[str, Any], num_sequences: int, seq_len: int) -> dict[str, int]:
        return {"projection_flops": 2 * num_sequences * seq_len * weights(*_letters(model))}

    return formula


def _core(width: Formula) -> Callable[..., dict[str, int]]:
    """FLOPs of the core, from the multiplications of one query-key pair in one head."""

    def formula(model: dict[str, Any], num_sequences: int, seq_len: int) -> dict[str, int]:
        pairs = num_sequences * model["num_heads"] * seq_len**2
        return {"core_flops": 2 * pairs * width(*_letters(model))}

    return formula


def _letters(model: dict[str, Any]) -> tuple[int, ...]:
    latent = model["latent_attention"]
    return model["hidden_size"], model["num_heads"], *(latent[name] for name in NAMES)


def _query(h: int, a: int, q: int, n: int, r: int) -> int:
    """Weights of the two query projections: down to the rank, up to the heads."""
    return h * q + q * a * (n + r)


CHECK = Check(
    cases=latent_cases,
    reference=latent_attention_flops,
    judge=EqualTo(
        measured_latent_flops,
        Mistake(
            "Your keys have a rotary part for each head. How many heads share the one that "
            "comes from x?",
            _projections(
                lambda h, a, q, k, n, r, v: (
                    _query(h, a, q, n, r) + h * (k + a * r) + k * a * (n + v) + a * v * h
                )
            ),
        ),
        Mistake(
            "The rotary key never enters your projections. Which matrix makes it, and how wide "
            "does that matrix become?",
            _projections(
                lambda h, a, q, k, n, r, v: (
                    _query(h, a, q, n, r) + h * k + k * a * (n + v) + a * v * h
                )
            ),
        ),
        Mistake(
            "You send the rotary part of the key through the latent vector as well. From which "
            "vector does the exercise make it?",
            _projections(
                lambda h, a, q, k, n, r, v: (
                    _query(h, a, q, n, r) + h * (k + r) + k * a * (n + r + v) + a * v * h
                )
            ),
        ),
        Mistake(
            "The latent vector is made, but never becomes keys and values. Which matrix widens "
            "it again?",
            _projections(
                lambda h, a, q, k, n, r, v: _query(h, a, q, n, r) + h * (k + r) + a * v * h
            ),
        ),
        Mistake(
            "Your queries go straight from x to the heads. Through which narrow vector do they "
            "go in the exercise's text?",
            _projections(
                lambda h, a, q, k, n, r, v: (
                    h * a * (n + r) + h * (k + r) + k * a * (n + v) + a * v * h
                )
            ),
        ),
        Mistake(
            "One projection is missing. What happens after the heads are put together again?",
            _projections(
                lambda h, a, q, k, n, r, v: _query(h, a, q, n, r) + h * (k + r) + k * a * (n + v)
            ),
        ),
        Mistake(
            "Your output projection takes heads as wide as keys. What are the scores multiplied "
            "with, and how wide is that?",
            _projections(
                lambda h, a, q, k, n, r, v: (
                    _query(h, a, q, n, r) + h * (k + r) + k * a * (n + v) + a * (n + r) * h
                )
            ),
        ),
        Mistake(
            "Both products of your core are as wide as the keys. How wide is a value head?",
            _core(lambda h, a, q, k, n, r, v: 2 * (n + r)),
        ),
        Mistake(
            "Your scores leave the rotary part out. With what does it meet, if not with the "
            "other rotary part?",
            _core(lambda h, a, q, k, n, r, v: n + v),
        ),
        Mistake(
            "That is one product of two: the scores. What are they multiplied with?",
            _core(lambda h, a, q, k, n, r, v: n + r),
        ),
        Mistake(
            "You square the tokens of the whole batch. Does a token look at other sequences?",
            lambda model, b, s: {
                "core_flops": b * latent_attention_flops(model_of(model), b, s)["core_flops"]
            },
        ),
        Mistake(
            "You count one head. How many heads compute scores?",
            lambda model, b, s: {
                "core_flops": latent_attention_flops(model_of(model), b, s)["core_flops"]
                // model["num_heads"]
            },
        ),
        Mistake(
            "You project the tokens of one sequence. How many sequences are there?",
            lambda model, b, s: {
                "projection_flops": latent_attention_flops(model_of(model), 1, s)[
                    "projection_flops"
                ]
            },
        ),
        Mistake(
            "That is the core over latent vectors, which inference uses to read less memory. How "
            "wide are keys and values once they are widened, as in training?",
            _core(lambda h, a, q, k, n, r, v: 2 * k + r),
        ),
    ),
)
