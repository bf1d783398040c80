"""Check of the bytes a GPT layer keeps in 16 bits, term by term."""

import random
from collections.abc import Callable

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u03.shared.layer_parts import sum_of
from course_utils.configs import Kernels, RunConfig, gpt
from course_utils.formulas.activations import layer_saved_bytes
from course_utils.instruments import count_saved_bytes
from course_utils.reference import Block

NAMES = ("num_sequences", "seq_len", "hidden_size", "num_heads")

GPT_KERNELS = Kernels(is_attention_fused=False, dropout_fraction=0.1)


def gpt_cases(seed: int) -> list[Case]:
    """One sequence and several, one head and several, short and long against the width."""
    rng = random.Random(seed)
    sizes = [(1, 3, 8, 2), (2, 5, 6, 1)]
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
    gpt_3 = (1, 2048, 12288, 96)
    return [dict(zip(NAMES, each, strict=True)) for each in (*sizes, gpt_3)]


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


def gpt_layer_bytes(
    num_sequences: int, seq_len: int, hidden_size: int, num_heads: int
) -> dict[str, int]:
    """The course's own answer, under the name that the exercise asks for."""
    run = RunConfig(micro_batch_size=num_sequences, seq_len=seq_len, kernels=GPT_KERNELS)
    kept = layer_saved_bytes(gpt(hidden_size, num_heads), run)
    scores = sum(size for name, size in kept.items() if "softmax" in name)
    return {
        "norms": sum_of(kept, "attention_norm_") + sum_of(kept, "ffn_norm_"),
        "attention": sum_of(kept, "attention_") - sum_of(kept, "attention_norm_") - scores,
        "scores": scores,
        "feed_forward": sum_of(kept, "ffn_") - sum_of(kept, "ffn_norm_"),
    }


CHECK = Check(
    cases=gpt_cases,
    reference=gpt_layer_bytes,
    judge=EqualTo(
        measured_gpt_layer_bytes,
        Mistake(
            "Your norms keep their inputs alone. Which two numbers per token would they otherwise "
            "compute again?",
            lambda b, s, h, a: {"norms": 4 * b * s * h},
        ),
        Mistake(
            "You count one norm. How many has a layer?",
            lambda b, s, h, a: {"norms": 2 * b * s * h + 8 * b * s},
        ),
        Mistake(
            "You have 4 bytes per token and norm. How many statistics has a LayerNorm, and how "
            "wide does the exercise say they are?",
            lambda b, s, h, a: {"norms": 4 * b * s * h + 8 * b * s},
        ),
        Mistake(
            "The three projections each keep an input with you. How often does one tensor lie in "
            "memory that three of them read?",
            lambda b, s, h, a: {"attention": 15 * b * s * h},
        ),
        Mistake(
            "The dropout behind attention keeps no mask with you. How does its backward pass know "
            "which numbers were dropped?",
            lambda b, s, h, a: {"attention": 10 * b * s * h},
        ),
        Mistake(
            "The mask of your dropout is as wide as its numbers. How many bytes does one decision "
            "take?",
            lambda b, s, h, a: {"attention": 12 * b * s * h},
        ),
        Mistake(
            "One 16-bit tensor of attention is missing. Which does each product read: the three "
            "projections, queries with keys, the product with the values, the output projection?",
            lambda b, s, h, a: {"attention": 9 * b * s * h},
        ),
        Mistake(
            "Your scores have one head. Which shape have they?",
            lambda b, s, h, a: {"scores": 5 * b * s * s},
        ),
        Mistake(
            "You keep the result of the softmax alone. What does the dropout after it need, and "
            "what the product with the values?",
            lambda b, s, h, a: {"scores": 2 * a * b * s * s},
        ),
        Mistake(
            "You have one square of 2 bytes too many. Which of yours are the same tensor?",
            lambda b, s, h, a: {"scores": 7 * a * b * s * s},
        ),
        Mistake(
            "You have 6 bytes for each score. Which tensors hold two bytes, and which one?",
            lambda b, s, h, a: {"scores": 6 * a * b * s * s},
        ),
        Mistake(
            "You keep softmax and mask. What does the product with the values read?",
            lambda b, s, h, a: {"scores": 3 * a * b * s * s},
        ),
        Mistake(
            "The mask on your scores is missing. How does its backward pass know what was dropped?",
            lambda b, s, h, a: {"scores": 4 * a * b * s * s},
        ),
        Mistake(
            "Your GELU keeps nothing of its own. Is its input the same tensor as its result?",
            lambda b, s, h, a: {"feed_forward": 11 * b * s * h},
        ),
        Mistake(
            "The dropout behind the feed-forward block keeps no mask with you. How does its "
            "backward pass know which numbers were dropped?",
            lambda b, s, h, a: {"feed_forward": 18 * b * s * h},
        ),
        Mistake(
            "The mask of your feed-forward dropout is as wide as its numbers. How many bytes does "
            "one decision take?",
            lambda b, s, h, a: {"feed_forward": 20 * b * s * h},
        ),
    ),
)
