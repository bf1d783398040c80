"""Check of the bytes that one more sequence keeps."""

import json
import random
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.configs import ModelConfig, RunConfig
from course_utils.formulas.activations import layer_saved_bytes, model_saved_bytes
from course_utils.instruments import count_saved_bytes, fake_tensors
from course_utils.reference import Transformer, token_loss

SMALL_HIDDEN_SIZE = 512


def sequence_cases(seed: int) -> list[Case]:
    """Multi-head, grouped-query, multi-query; small and large vocabularies; real models."""
    rng = random.Random(seed)
    cases: list[Case] = []
    for kv, group in ((2, 1), (rng.randint(2, 4), 2), (1, rng.randint(2, 6))):
        for vocab_size in (rng.randint(5, 20), rng.randint(100, 999), rng.randint(5_000, 9_000)):
            for num_layers in (rng.randint(2, 3), rng.randint(4, 6)):
                sizes = (num_layers, kv * group * 6, kv * group, kv, rng.randrange(5, 99, 2))
                cases.append(_case((*sizes, vocab_size), rng.randrange(3, 99, 2)))
    llama_1b, llama_8b = (16, 2048, 32, 8, 8192, 128256), (32, 4096, 32, 8, 14336, 128256)
    return [*cases, _case(llama_1b, 4096), _case(llama_8b, 8192)]


def _case(sizes: tuple[int, ...], seq_len: int) -> Case:
    names = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "ffn_size", "vocab_size")
    model = dict(zip(names, sizes, strict=True))
    layer_bytes = _one_layer(model_of(model), seq_len)
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


def sequence_bytes(model: ModelConfig, seq_len: int, layer_bytes: int) -> int:
    """The course's own answer, under the name that the exercise asks for."""
    return sum(model_saved_bytes(model, _run(seq_len, 2)).values()) - sum(
        model_saved_bytes(model, _run(seq_len, 1)).values()
    )


def _run(seq_len: int, micro_batch_size: int = 1) -> RunConfig:
    return RunConfig(micro_batch_size=micro_batch_size, seq_len=seq_len, is_loss_fp32=True)


def _less(wrong: Callable[[ModelConfig, int], int]) -> Callable[..., int]:
    """The right number minus something, from a model and a length."""

    def formula(model: dict[str, Any], seq_len: int, layer_bytes: int) -> int:
        m = model_of(model)
        return sequence_bytes(m, seq_len, layer_bytes) - wrong(m, seq_len)

    return formula


def _one_layer(model: ModelConfig, seq_len: int) -> int:
    return sum(layer_saved_bytes(model, _run(seq_len)).values())


def _log_softmax(model: ModelConfig, seq_len: int) -> int:
    return 4 * seq_len * model.vocab_size


CHECK = Check(
    cases=sequence_cases,
    reference=sequence_bytes,
    judge=EqualTo(
        measured_sequence_bytes,
        Mistake(
            "The loss keeps nothing with you. How many numbers has the softmax over the "
            "vocabulary?",
            _less(_log_softmax),
        ),
        Mistake(
            "Your loss is in bf16. What does the exercise say about the logits?",
            _less(lambda m, s: _log_softmax(m, s) // 2),
        ),
        Mistake(
            "That is one layer. How many are there?",
            _less(lambda m, s: (m.num_layers - 1) * _one_layer(m, s)),
        ),
        Mistake(
            "The norm behind the last layer is missing. What does it keep?",
            _less(lambda m, s: s * (2 * m.hidden_size + 4)),
        ),
        Mistake(
            "The head keeps nothing with you. Which tensor stands in the gradient of its weight?",
            _less(lambda m, s: 2 * s * m.hidden_size),
        ),
        Mistake(
            "The last norm and the head keep nothing with you. Which tensors stand in the "
            "gradients of their weights?",
            _less(lambda m, s: s * (4 * m.hidden_size + 4)),
        ),
        Mistake(
            "Token ids and targets are missing. Which of them does the embedding need to find "
            "its rows again, and which the loss?",
            _less(lambda m, s: 16 * s),
        ),
        Mistake(
            "You have 8 bytes per token for ids and targets together. Who keeps each, and how wide "
            "does the exercise say they are?",
            _less(lambda m, s: 8 * s),
        ),
        Mistake(
            "The logits in fp32 are in your sum beside what the softmax keeps. What does the "
            "derivative of the loss contain?",
            _less(lambda m, s: -_log_softmax(m, s)),
        ),
        Mistake(
            "The statistics of the last norm are missing. What does an RMSNorm keep beside its "
            "input?",
            _less(lambda m, s: 4 * s),
        ),
        Mistake(
            "The logits are in your sum beside what the softmax keeps. What does the derivative "
            "of the loss contain?",
            _less(lambda m, s: -2 * s * m.vocab_size),
        ),
    ),
)
