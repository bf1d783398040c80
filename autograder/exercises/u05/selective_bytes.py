"""Check of the bytes that one GPT layer keeps under each policy of recomputation."""

import random
from collections.abc import Callable
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.configs import Kernels, RunConfig, gpt
from course_utils.formulas import recomputation
from course_utils.instruments import count_saved_bytes
from course_utils.reference import Block
from course_utils.reference.recomputation import in_segments

NAMES = ("num_sequences", "seq_len", "hidden_size", "num_heads")


def kept_cases(seed: int) -> list[Case]:
    """One sequence and several, one head and several; the layers of GPT-3 and of a 1B model."""
    rng = random.Random(seed)
    sizes = [(1, 3, 8, 2)]
    for num_sequences in (1, rng.randint(2, 9)):
        for num_heads in (1, rng.randint(2, 5), rng.randint(6, 9)):
            for seq_len in (
                rng.randrange(13, 30, 2),
                rng.randrange(31, 60, 2),
                rng.randint(80, 99),
            ):
                sizes.append((num_sequences, seq_len, num_heads * rng.randint(3, 11), num_heads))
    sizes += [(1, 2048, 12288, 96), (1, 4096, 2048, 32)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def _with_dropout(is_selective: bool) -> Kernels:
    return Kernels(
        is_attention_fused=False, is_attention_recomputed=is_selective, dropout_fraction=0.1
    )


def measured_kept_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """What a real bf16 layer on the meta device keeps under each policy."""
    sizes, shape = gpt(hidden_size, num_heads), (num_sequences, seq_len, hidden_size)

    def kept(is_selective: bool, is_full: bool) -> int:
        block = Block(sizes, 0, "meta", torch.bfloat16, _with_dropout(is_selective))
        layer = in_segments([block])[0] if is_full else block
        x = torch.empty(shape, dtype=torch.bfloat16, device="meta", requires_grad=True)
        return count_saved_bytes(lambda: layer(x), layer).total_bytes

    flags = {"none": (False, False), "selective": (True, False), "full": (False, True)}
    return {policy: kept(*each) for policy, each in flags.items()}


def kept_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """The course's own answer."""
    run = RunConfig(
        micro_batch_size=num_sequences, seq_len=seq_len, kernels=_with_dropout(is_selective=False)
    )
    sizes = gpt(hidden_size, num_heads)
    return {
        policy: recomputation.kept_bytes(sizes, run, policy) for policy in recomputation.POLICIES
    }


def _kept(policy: str, stream: int, squares: int, statistics: int = 16) -> Callable[..., Any]:
    """A mistake in one policy: its factors of ``s b h``, ``a s s b`` and ``s b``."""

    def formula(b: int, s: int, h: int, a: int) -> dict[str, int]:
        return {policy: b * s * (stream * h + squares * a * s + statistics)}

    return formula


CHECK = Check(
    cases=kept_cases,
    reference=kept_bytes,
    judge=EqualTo(
        measured_kept_bytes,
        Mistake(
            "The statistics of the norms are missing. Which two numbers of 4 bytes does a "
            "LayerNorm keep for each token?",
            _kept("none", 34, 5, 0),
        ),
        Mistake(
            "The statistics of the norms are missing. Is a norm in the core of attention?",
            _kept("selective", 34, 0, 0),
        ),
        Mistake(
            "Queries, keys and values have gone with the core. From what is it computed again?",
            _kept("selective", 28, 0),
        ),
        Mistake(
            "All of attention has gone. What does the exercise compute again, and what stays of "
            "the projections and the dropout behind them?",
            _kept("selective", 23, 0),
        ),
        Mistake(
            "The result of the core has gone with it. Which projection reads it?",
            _kept("selective", 32, 0),
        ),
        Mistake(
            "Only the result of the softmax has gone. What else has two sides of the length?",
            _kept("selective", 34, 3),
        ),
        Mistake(
            "The mask on the scores has stayed. How does the core drop the same numbers again?",
            _kept("selective", 34, 1),
        ),
        Mistake(
            "With full recomputation you keep the input in bytes of one. How wide is a number of "
            "16 bits?",
            _kept("full", 1, 0, 0),
        ),
        Mistake(
            "With full recomputation you keep input and result of the layer. Who keeps its result?",
            _kept("full", 4, 0, 0),
        ),
        Mistake(
            "With full recomputation statistics stay. Who needs them before the layer runs again?",
            _kept("full", 2, 0),
        ),
    ),
)
