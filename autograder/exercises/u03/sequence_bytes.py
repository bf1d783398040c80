"""Check of the bytes that one more sequence keeps."""

import json
import random
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u03.shared.counters import COUNTERS, just_above
from course_utils.formulas.activations import llama_layer_bytes
from course_utils.instruments import count_saved_bytes, fake_tensors
from course_utils.reference import Transformer, token_loss

SMALL_HIDDEN_SIZE = 512


def sequence_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query, multi-query; tied heads; small and large vocabularies.

    Real models, too. The last count is beyond a float.
    """
    rng = random.Random(seed)
    cases = [_case((2, 4, 2, 1, 3, 5), 2)]  # the worked one
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for vocab_size in (rng.randint(5, 20), rng.randint(100, 999), rng.randint(5_000, 9_000)):
            for num_layers in (rng.randint(2, 3), rng.randint(4, 6)):
                sizes = (num_layers, kv * group * 6, kv * group, kv, rng.randrange(5, 99, 2))
                is_tied = len(cases) % 3 == 0
                cases.append(_case((*sizes, vocab_size), rng.randrange(3, 99, 2), is_tied=is_tied))
    llama_1b, llama_8b = (16, 2048, 32, 8, 8192, 128256), (32, 4096, 32, 8, 14336, 128256)
    huge = _case((2, 1024, 8, 4, 5, just_above(29, rng)), just_above(27, rng))
    lengths = (64 * rng.randint(32, 128) for _ in range(2))
    real = [_case(llama_1b, next(lengths), is_tied=True), _case(llama_8b, next(lengths))]
    return [*cases, *real, huge]


def _case(sizes: tuple[int, ...], seq_len: int, *, is_tied: bool = False) -> Case:
    names = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "ffn_size", "vocab_size")
    model = {**dict(zip(names, sizes, strict=True)), "is_tied": is_tied}
    layer_bytes = sum(llama_layer_bytes(model_of(model), 1, seq_len, 2).values())
    return {"model": model, "seq_len": seq_len, "layer_bytes": layer_bytes}


def measured_sequence_bytes(model: dict[str, Any], seq_len: int, layer_bytes: int) -> int:
    """What two sequences keep, minus what one keeps, counted in bf16."""
    one, two = (_counted(json.dumps(model), batch, seq_len) for batch in (1, 2))
    return two - one


@cache
def _counted(model: str, batch: int, seq_len: int) -> int:
    """A small model runs on real tensors, which is faster; a large one on fake tensors.

    Both keep the same bytes.
    """
    sizes = model_of(json.loads(model))
    with nullcontext() if sizes.hidden_size < SMALL_HIDDEN_SIZE else fake_tensors():
        built = Transformer(sizes, dtype=torch.bfloat16)
        ids, targets = (torch.zeros(batch, seq_len, dtype=torch.long) for _ in range(2))
        loss = count_saved_bytes(lambda: token_loss(built(ids), targets, is_fp32=True), built)
    return loss.total_bytes


CHECK = Check(
    cases=sequence_cases,
    judge=EqualTo(measured_sequence_bytes, *mistakes_of("u03-sequence-bytes")),
    fallback="course_utils.formulas.activations.sequence_bytes",
    answers=COUNTERS,
)
