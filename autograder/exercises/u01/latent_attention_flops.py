"""Check of the FLOPs of multi-head latent attention."""

import random
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
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


CHECK = Check(
    cases=latent_cases,
    judge=EqualTo(measured_latent_flops, *mistakes_of("u01-latent-attention-flops")),
    fallback="course_utils.formulas.designs.latent_attention_flops",
    answers=(*COUNTERS, "course_utils.reference.layers.MultiHeadLatentAttention"),
)
