"""Check of the bytes a GPT layer keeps in 16 bits, term by term."""

import random
from collections.abc import Callable

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
ATTENTION, SCORES = "(projections_input + queries_keys_values + output_input + mask)", "(2 + 1 + 2)"
FEED_FORWARD = "(first_input + gelu_input + second_input + mask)"
STATISTICS = "2 * (2 * one + 2 * 4 * tokens)"


def _edit(hint: str, old: str, new: str) -> Edit:
    """A mistake in one of the four parts."""
    return Edit(hint, {old: new}, points=1.5)


EDITS = (
    _edit(
        "Your norms keep only their inputs. Which two numbers per token would backward have to "
        "recompute?",
        STATISTICS,
        "4 * one",
    ),
    _edit(
        "You count one norm. How many does a layer have?",
        STATISTICS,
        "2 * one + 8 * tokens",
    ),
    _edit(
        "You count 4 bytes of statistics per token and norm. How many does a LayerNorm keep, "
        "and how wide are they?",
        STATISTICS,
        "2 * (2 * one + 4 * tokens)",
    ),
    _edit(
        "Your norms keep statistics per sequence. Over which numbers does a norm take its mean?",
        STATISTICS,
        "2 * (2 * one + 2 * 4 * num_sequences)",
    ),
    _edit(
        "Your norms keep only their statistics. Which tensor does the gradient of the norm's "
        "weight contain?",
        STATISTICS,
        "2 * 2 * 4 * tokens",
    ),
    _edit(
        "Your norms keep their results as well as their inputs. In which part does the exercise "
        "count the result of a norm?",
        STATISTICS,
        "2 * (4 * one + 2 * 4 * tokens)",
    ),
    _edit(
        "Your norms' statistics are those of one sequence. How many tokens are in the whole batch?",
        STATISTICS,
        "2 * (2 * one + 2 * 4 * seq_len)",
    ),
    _edit(
        "You count the input of the projections three times. How often is that tensor in memory?",
        ATTENTION,
        "(3 * 2 + 3 * 2 + 2 + 1)",
    ),
    _edit(
        "You count one 16-bit tensor of attention too many. Are two of yours the same one, or "
        "do you keep one for the addition?",
        ATTENTION,
        "(2 + 3 * 2 + 2 + 2 + 1)",
    ),
    _edit(
        "Your dropout after attention keeps no mask. How does backward know which numbers were "
        "dropped?",
        ATTENTION,
        "(2 + 3 * 2 + 2)",
    ),
    _edit(
        "Your dropout mask is as wide as the numbers. How many bytes does a mask take per number?",
        ATTENTION,
        "(2 + 3 * 2 + 2 + 2)",
    ),
    _edit(
        "One 16-bit tensor of attention is missing. What does each product read: the three "
        "projections, queries with keys, softmax with values, the output projection?",
        ATTENTION,
        "(2 + 2 * 2 + 2 + 1)",
    ),
    _edit(
        "One 16-bit tensor of attention and the mask are missing. What does each product read, "
        "and how does dropout know what it dropped?",
        ATTENTION,
        "(3 * 2 + 2)",
    ),
    _edit(
        "Two 16-bit tensors of attention are missing. What does each product read: the three "
        "projections, queries with keys, softmax with values, the output projection?",
        ATTENTION,
        "(2 + 2 + 2 + 1)",
    ),
    _edit(
        "Your scores are those of one head. What shape do the scores have?",
        "num_heads * tokens * seq_len",
        "tokens * seq_len",
    ),
    _edit(
        "Your scores are those of one sequence. How many sequences are there?",
        "num_heads * tokens * seq_len",
        "num_heads * seq_len**2",
    ),
    _edit(
        "Your scores have one number per token and head, as on a slide. How many tokens does "
        "one token meet?",
        "num_heads * tokens * seq_len",
        "num_heads * tokens",
    ),
    _edit(
        "You keep only the result of the softmax. What do its dropout and the product with the "
        "values need?",
        SCORES,
        "2",
    ),
    _edit(
        "You count one 2-byte square too many. Does softmax's derivative need its input?",
        SCORES,
        "7",
    ),
    _edit(
        "You count 6 bytes per score. Which tensors take two bytes per score, and which one?",
        SCORES,
        "6",
    ),
    _edit(
        "You keep the result of the softmax and the mask. What does the product with the values "
        "read?",
        SCORES,
        "3",
    ),
    _edit(
        "The mask of your scores is missing. How does backward know which were dropped?",
        SCORES,
        "4",
    ),
    _edit(
        "Your GELU keeps nothing of its own. Is its input the same tensor as its result?",
        FEED_FORWARD,
        "11",
    ),
    _edit(
        "Your dropout after the feed-forward block keeps no mask. How does backward know which "
        "numbers were dropped?",
        FEED_FORWARD,
        "18",
    ),
    _edit(
        "Your feed-forward mask is as wide as the numbers. How many bytes does a mask take per "
        "number?",
        FEED_FORWARD,
        "20",
    ),
    _edit(
        "The inner tensors of your feed-forward block are as wide as the stream. How wide is "
        "the output of its first matrix?",
        FEED_FORWARD,
        "7",
    ),
    _edit(
        "The input of your first matrix is missing. Which tensor does the gradient of its "
        "weight contain?",
        FEED_FORWARD,
        "17",
    ),
    _edit(
        "Your feed-forward mask has the inner width. How wide is the output of the second matrix?",
        FEED_FORWARD,
        "(first_input + gelu_input + second_input + 4 * mask)",
    ),
)

CHECK = Check(
    cases=gpt_cases,
    judge=EqualTo(measured_gpt_layer_bytes, *edited("u03-gpt-layer-bytes", EDITS)),
    fallback="course_utils.formulas.activations.gpt_layer_bytes",
    answers=COUNTERS,
)
