"""Check of the bytes a Llama layer keeps, term by term."""

import random
from collections.abc import Callable
from typing import Any

import torch

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u03.shared.layer_parts import ELEMENT_BYTES, sum_of
from course_utils.configs import ModelConfig, RunConfig, precision
from course_utils.formulas.activations import layer_saved_bytes
from course_utils.instruments import count_saved_bytes, fake_tensors
from course_utils.reference import Block
from course_utils.reference.dtypes import FLOATS


def llama_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query, multi-query; bf16 and fp32; the layer of Llama-3-8B."""
    rng = random.Random(seed)
    cases: list[Case] = []
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for num_sequences in (1, rng.randint(2, 5), rng.randint(6, 9)):
            for element_bytes in ELEMENT_BYTES:
                hidden_size = kv * group * rng.choice((4, 6, 8))
                sizes = (hidden_size, kv * group, kv, rng.randrange(5, 99, 2))
                seq_len = rng.randrange(3, 99, 2)
                cases.append(_case(sizes, num_sequences, seq_len, element_bytes))
    llama_8b = (4096, 32, 8, 14336)
    return [*cases, *(_case(llama_8b, 1, 8192, each) for each in ELEMENT_BYTES)]


def _case(
    sizes: tuple[int, int, int, int], num_sequences: int, seq_len: int, element_bytes: int
) -> Case:
    names = ("hidden_size", "num_heads", "num_kv_heads", "ffn_size")
    model = {"num_layers": 1, **dict(zip(names, sizes, strict=True)), "vocab_size": 1}
    return {
        **{"model": model, "num_sequences": num_sequences},
        **{"seq_len": seq_len, "element_bytes": element_bytes},
    }


def measured_llama_layer_bytes(
    model: dict[str, Any], num_sequences: int, seq_len: int, element_bytes: int
) -> dict[str, int]:
    """A real layer on fake tensors; one norm and the feed-forward block also alone."""
    sizes = model_of(model)
    dtype = FLOATS[element_bytes]
    with fake_tensors():
        block = Block(sizes, 0, "cpu", dtype)
        x = torch.empty(num_sequences, seq_len, sizes.hidden_size, dtype=dtype, requires_grad=True)
        whole, norm, feed_forward = (
            count_saved_bytes(lambda part=part: part(x), block).total_bytes  # type: ignore[misc]
            for part in (block, block.ffn_norm, block.ffn)
        )
    return {
        "norms": 2 * norm,
        "attention": whole - 2 * norm - feed_forward,
        "feed_forward": feed_forward,
    }


def llama_layer_bytes(
    model: ModelConfig, num_sequences: int, seq_len: int, element_bytes: int
) -> dict[str, int]:
    """The course's own answer, under the name that the exercise asks for."""
    run = RunConfig(
        micro_batch_size=num_sequences,
        seq_len=seq_len,
        precision=precision(ELEMENT_BYTES[element_bytes]),
    )
    kept = layer_saved_bytes(model, run)
    norms = sum_of(kept, "attention_norm_") + sum_of(kept, "ffn_norm_")
    return {
        "norms": norms,
        "attention": sum_of(kept, "attention_") - sum_of(kept, "attention_norm_"),
        "feed_forward": sum_of(kept, "ffn_") - sum_of(kept, "ffn_norm_"),
    }


def _llama(part: str, wrong: Callable[..., int]) -> Callable[..., dict[str, int]]:
    """A mistake in one part, from tokens, element bytes, h, a, width of the keys, and f."""

    def formula(
        model: dict[str, Any], num_sequences: int, seq_len: int, element_bytes: int
    ) -> dict[str, int]:
        m = model_of(model)
        shared = m.num_kv_heads * m.head_dim
        tokens = num_sequences * seq_len
        letters = (tokens, element_bytes, m.hidden_size, m.num_heads, shared, m.ffn_size)
        return {part: wrong(*letters)}

    return formula


CHECK = Check(
    cases=llama_cases,
    reference=llama_layer_bytes,
    judge=EqualTo(
        measured_llama_layer_bytes,
        Mistake(
            "Your norms keep two numbers per token, as LayerNorm does. Does RMSNorm subtract a "
            "mean?",
            _llama("norms", lambda n, e, h, a, k, f: 2 * n * (e * h + 8)),
        ),
        Mistake(
            "Your norms keep their inputs alone. Which number per token would they otherwise "
            "compute again?",
            _llama("norms", lambda n, e, h, a, k, f: 2 * n * e * h),
        ),
        Mistake(
            "The statistics of your norms are as wide as an activation. What does the exercise "
            "say?",
            _llama("norms", lambda n, e, h, a, k, f: 2 * n * (e * h + e)),
        ),
        Mistake(
            "Your keys and values are as wide as queries. How many heads do they have?",
            _llama("attention", lambda n, e, h, a, k, f: n * (5 * e * h + 4 * a)),
        ),
        Mistake(
            "Nothing of the softmax is kept with you. Which one number per query and head lets "
            "fused attention compute it again?",
            _llama("attention", lambda n, e, h, a, k, f: n * e * (3 * h + 2 * k)),
        ),
        Mistake(
            "Your log-sum-exp is as wide as an activation. What does the exercise say?",
            _llama("attention", lambda n, e, h, a, k, f: n * (e * (3 * h + 2 * k) + e * a)),
        ),
        Mistake(
            "One tensor of the stream's size is too many. Which of yours are the same one?",
            _llama("attention", lambda n, e, h, a, k, f: n * (e * (4 * h + 2 * k) + 4 * a)),
        ),
        Mistake(
            "Two tensors of the stream's size are too many. Which of yours are the same one?",
            _llama("attention", lambda n, e, h, a, k, f: n * (e * (5 * h + 2 * k) + 4 * a)),
        ),
        Mistake(
            "Your block has two inner tensors, as with GELU. What does a gate multiply, and what "
            "goes into SiLU?",
            _llama("feed_forward", lambda n, e, h, a, k, f: n * e * (h + 2 * f)),
        ),
        Mistake(
            "Three inner tensors: one is missing. What goes into SiLU, what are the two factors "
            "of the gate, and what does the last matrix read?",
            _llama("feed_forward", lambda n, e, h, a, k, f: n * e * (h + 3 * f)),
        ),
        Mistake(
            "Your numbers have two bytes, whatever they are. What does `element_bytes` say?",
            _llama("feed_forward", lambda n, e, h, a, k, f: 2 * n * (h + 4 * f)),
        ),
        Mistake(
            "The input of the block is missing. Which tensor stands in the gradient of its first "
            "matrices?",
            _llama("feed_forward", lambda n, e, h, a, k, f: n * e * 4 * f),
        ),
        Mistake(
            "One tensor of the stream's size is too many. Which does the block read, and who "
            "keeps what it gives?",
            _llama("feed_forward", lambda n, e, h, a, k, f: n * e * (2 * h + 4 * f)),
        ),
    ),
)
