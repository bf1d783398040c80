"""Check of the bytes a GPT layer keeps in 16 bits, term by term."""

import random
from collections.abc import Callable

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u03.shared.counters import COUNTERS, just_above
from course_utils.configs import Kernels, gpt
from course_utils.instruments import count_saved_bytes
from course_utils.reference import Block

NAMES = ("num_sequences", "seq_len", "hidden_size", "num_heads")

GPT_KERNELS = Kernels(is_attention_fused=False, dropout_fraction=0.1)


def gpt_cases(seed: int) -> list[Case]:
    """One sequence and several, one head and several, short and long against the width.

    The last counts are beyond a float.
    """
    rng = random.Random(seed)
    sizes = [(1, 3, 12, 2), (rng.randint(2, 9), 5, rng.randint(6, 19), 1)]
    for num_sequences in (1, rng.randint(2, 9)):
        for num_heads in (1, rng.randint(2, 5), rng.randint(6, 9)):
            for seq_len in (
                rng.randrange(13, 30, 2),
                rng.randrange(31, 60, 2),
                rng.randint(90, 99),
            ):
                width = num_heads * rng.randint(3, 11)
                width += num_heads * (width == seq_len)  # so that only scores are square
                sizes.append((num_sequences, seq_len, width, num_heads))
    sizes.append((1, 64 * rng.randint(8, 64), 12288, 96))  # GPT-3
    sizes.append((3, just_above(26, rng), 5 * just_above(25, rng), 5))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured_gpt_layer_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """A real bf16 layer on the meta device, where a LayerNorm keeps what it keeps on a GPU.

    Tensors whose last two axes have the sequence length are scores. One norm, and the feed-forward
    block with its dropout, are also measured alone.
    """
    block = Block(gpt(hidden_size, num_heads), 0, "meta", torch.bfloat16, GPT_KERNELS)
    shape = (num_sequences, seq_len, hidden_size)
    x = torch.empty(shape, dtype=torch.bfloat16, device="meta", requires_grad=True)

    def kept(call: Callable[[], torch.Tensor]) -> tuple[int, int]:
        saved = count_saved_bytes(call, block)
        square = (seq_len, seq_len)
        scores = sum(t.storage_bytes for t in saved.tensors if t.shape[-2:] == square)
        return saved.total_bytes - scores, scores

    whole, scores = kept(lambda: block(x))
    norms = 2 * kept(lambda: block.ffn_norm(x))[0]
    feed_forward, _ = kept(lambda: torch.native_dropout(block.ffn(x), 0.1, True)[0])
    return {
        "norms": norms,
        "attention": whole - norms - feed_forward,
        "scores": scores,
        "feed_forward": feed_forward,
    }


CHECK = Check(
    cases=gpt_cases,
    judge=EqualTo(measured_gpt_layer_bytes, *mistakes_of("u03-gpt-layer-bytes")),
    fallback="course_utils.formulas.activations.gpt_layer_bytes",
    answers=COUNTERS,
)
