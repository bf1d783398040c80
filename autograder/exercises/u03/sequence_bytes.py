"""Check of the bytes that one more sequence keeps."""

import itertools
import json
import random
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

import torch

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


# Places of the model answer.
AROUND = "last_norm + head_input + log_softmax + ids_and_targets"
LOG_SOFTMAX, IDS = "4 * seq_len * model.vocab_size", "2 * 8 * seq_len"
LAYERS, STATISTICS = "model.num_layers * layer_bytes", "stream + 4 * seq_len"


AROUND_IN_WORDS = {
    "last_norm": "the last norm",
    "head_input": "the head",
    "log_softmax": "the loss",
    "ids_and_targets": "ids and targets",
}


def _without(*parts: str) -> dict[str, str]:
    """Some of what stands around the layers left out."""
    return {AROUND: " + ".join(["0", *(each for each in AROUND_IN_WORDS if each not in parts)])}


def _several_missing(parts: Sequence[str]) -> Edit:
    *first, last = (AROUND_IN_WORDS[each] for each in parts)
    words = f"{', '.join(first)} and {last} are missing from your sum."
    return Edit(
        f"{words[0].upper()}{words[1:]} What does the derivative of each need?", _without(*parts)
    )


EDITS = (
    *(
        _several_missing(parts)
        for count in (2, 3)
        for parts in itertools.combinations(AROUND_IN_WORDS, count)
    ),
    Edit(
        "The loss is missing from your sum. How many numbers does the softmax over the "
        "vocabulary have?",
        _without("log_softmax"),
    ),
    Edit(
        "Your loss is in bf16. What does the exercise say about its precision?",
        {LOG_SOFTMAX: "2 * seq_len * model.vocab_size"},
    ),
    Edit(
        "Your log-softmax has one number per token. How many words could follow a token?",
        {LOG_SOFTMAX: "4 * seq_len"},
    ),
    Edit(
        "Your log-softmax has one number per word of the vocabulary. For how many tokens is "
        "there a loss?",
        {LOG_SOFTMAX: "4 * model.vocab_size"},
    ),
    Edit("You count one layer. How many are there?", {LAYERS: "layer_bytes"}),
    Edit(
        "The layers are missing. How many are there, and what does each keep?",
        {f"{LAYERS} + around": "around"},
    ),
    Edit(
        "You count what is around the layers once per layer. How many heads and losses does a "
        "model have?",
        {f"{LAYERS} + around": "model.num_layers * (layer_bytes + around)"},
    ),
    Edit(
        "You count the last norm and the input of the head once per layer. How many of them does a "
        "model have?",
        {
            f"{LAYERS} + around": "model.num_layers * (layer_bytes + last_norm + head_input) "
            "+ log_softmax + ids_and_targets"
        },
    ),
    Edit(
        "You count only the layers. Which operations come before and after them?",
        {f"{LAYERS} + around": LAYERS},
    ),
    Edit(
        "The norm after the last layer is missing. What does it keep?",
        _without("last_norm"),
    ),
    Edit(
        "Where the head is tied to the embedding, you keep nothing for it. What does the gradient "
        "of its weight need besides the matrix, whoever else uses that?",
        {AROUND: AROUND.replace("head_input", "(0 if model.is_tied else head_input)")},
    ),
    Edit(
        "One tensor as wide as the model is missing: the last norm keeps what it reads, and so "
        "does the head. Which of the two is not in your sum?",
        _without("head_input"),
    ),
    Edit(
        "Token ids and targets are missing. Which does the embedding need to find its rows "
        "again, and which does the loss need?",
        _without("ids_and_targets"),
    ),
    Edit(
        "You count 8 bytes per token for ids and targets together. Who keeps each, and how wide "
        "is each?",
        {IDS: "8 * seq_len"},
    ),
    Edit(
        "You count one id and one target per sequence. How many tokens does a sequence have?",
        {IDS: "2 * 8"},
    ),
    Edit(
        "You count the fp32 logits as well as the log-softmax. Which does the derivative of the "
        "loss need?",
        {AROUND: f"{AROUND} + log_softmax"},
    ),
    Edit(
        "The statistics of the last norm are missing. What does an RMSNorm keep besides its input?",
        {STATISTICS: "stream"},
    ),
    Edit(
        "The statistics of your last norm are in bf16. What does the unit say about their "
        "precision?",
        {STATISTICS: "stream + 2 * seq_len"},
    ),
    Edit(
        "Your last norm keeps two numbers per token, as LayerNorm does. Does RMSNorm subtract a "
        "mean?",
        {STATISTICS: "stream + 8 * seq_len"},
    ),
    Edit(
        "Your embedding also keeps the rows that it found. What does its derivative need?",
        {AROUND: f"{AROUND} + stream"},
    ),
    Edit(
        "You count the bf16 logits as well as the log-softmax. Which does the derivative of the "
        "loss need?",
        {AROUND: f"{AROUND} + log_softmax // 2"},
    ),
)

CHECK = Check(
    cases=sequence_cases,
    judge=EqualTo(measured_sequence_bytes, *edited("u03-sequence-bytes", EDITS)),
    fallback="course_utils.formulas.activations.sequence_bytes",
    answers=COUNTERS,
)
