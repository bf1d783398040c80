"""Check of the bytes of weights and cache that a step moves."""

import random
from typing import Any

import torch

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u02.shared.sizes import COUNTERS, just_above, small_model
from course_utils.instruments import MovedBytes, count_bytes, fake_tensors
from course_utils.reference import Transformer
from course_utils.reference.generation import Cache, hidden_states

PHASES = ("prefill", "decode", "train")
WORKED = {
    **{"num_layers": 1, "hidden_size": 4, "num_heads": 2, "num_kv_heads": 1, "head_dim": 2},
    **{"ffn_size": 5, "vocab_size": 50},
}


def step_cases(seed: int) -> list[Case]:
    """Every phase with one sequence and with several; own and shared keys, heads of any width.

    The last counts are beyond what a float holds, and none of their numbers is small.
    """
    rng = random.Random(seed)
    cases = [_case(WORKED, 2, 3, "decode")]
    for number in range(24):
        num_sequences = (1, rng.randint(2, 5))[number // 3 % 2]
        model = small_model(rng, number // 3)
        cases.append(_case(model, num_sequences, rng.randrange(3, 39, 2), PHASES[number % 3]))
    wide = WORKED | {
        **{"hidden_size": just_above(26, rng), "ffn_size": just_above(26, rng)},
        **{"num_heads": 64, "num_kv_heads": 32, "vocab_size": 997},
    }
    return [*cases, *(_case(wide, 9, 99, phase) for phase in PHASES)]


def _case(model: dict[str, Any], num_sequences: int, seq_len: int, phase: str) -> Case:
    return {
        **{"model": model, "num_sequences": num_sequences},
        **{"seq_len": seq_len, "phase": phase},
    }


def counted(model: dict[str, Any], num_sequences: int, seq_len: int, phase: str) -> dict[str, int]:
    """The same bytes, by whose storage they are, counted while the step runs on fake tensors."""
    with fake_tensors():
        moved, _ = moved_by(model, num_sequences, seq_len, phase)
    weights, cache = moved.of("weights"), moved.of("cache")
    if weights.written_bytes:
        raise RuntimeError(f"a step of {model} writes weights")
    return {
        "weights": weights.read_bytes,
        "cache_read": cache.read_bytes,
        "cache_written": cache.written_bytes,
    }


def moved_by(
    model: dict[str, Any], num_sequences: int, seq_len: int, phase: str
) -> tuple[MovedBytes, int]:
    """What a step moves, and the bytes of all weights and of the cache."""
    built = Transformer(model_of(model), dtype=torch.bfloat16)
    ids = torch.zeros(num_sequences, 1 if phase == "decode" else seq_len, dtype=torch.long)
    of_weights = sum(each.nbytes for each in built.parameters())
    if phase == "train":
        step = count_bytes(lambda: built(ids).sum().backward(), weights=built.parameters())
        return step, of_weights
    cache = Cache(built, num_sequences, seq_len + 1)
    cache.length = seq_len if phase == "decode" else 0
    with torch.no_grad():
        step = count_bytes(
            lambda: built.head(hidden_states(built, ids, cache)[:, -1]),
            weights=built.parameters(),
            cache=cache.tensors,
        )
    return step, of_weights + sum(each.nbytes for each in cache.tensors)


# Places of the model answer.
LAYER, HEAD = "layer = 2 * h * heads + 2 * h * cached", "h + h * model.vocab_size"
ROWS, TIMES = "times * elements + new_tokens * h", '2 if phase == "train" else 1'
TOKEN, SEEN = "token_bytes = 4 * model.num_layers * cached", 'seq_len + 1 if phase == "decode"'
READ, WRITTEN = "token_bytes * seen * is_cached", "token_bytes * new_tokens * is_cached"
SEVERAL, SEEN_BY_ONE = "seen = num_sequences * ", f"{SEEN} else seq_len"
POINTS = 3.0
ONE, TWO = POINTS / 3, round(POINTS * 2 / 3, 6)
EDITS = (
    Edit(
        "Half of the cache. What is cached beside the keys?",
        {TOKEN: TOKEN.replace("4", "2")},
        points=ONE,
    ),
    Edit(
        "Your cache is as wide as the queries. Which heads make keys and values?",
        {TOKEN: TOKEN.replace("cached", "heads")},
        points=ONE,
    ),
    Edit(
        "Your cache is as wide as the model. Which heads make keys and values, and how wide are "
        "they?",
        {TOKEN: TOKEN.replace("cached", "h")},
        points=ONE,
    ),
    Edit(
        "Your weights grow with the batch. How often does one product over the whole batch read "
        "its matrix?",
        {ROWS: "num_sequences * times * elements + new_tokens * h"},
        points=TWO,
    ),
    Edit(
        "In decode your weights grow with the batch. How often does one product over the whole "
        "batch read its matrix?",
        {ROWS: '(num_sequences if phase == "decode" else times) * elements + new_tokens * h'},
        points=TWO,
    ),
    Edit(
        "You read the whole embedding. Which of its rows does a step look up?",
        {ROWS: "times * elements + h * model.vocab_size"},
        points=TWO,
    ),
    Edit(
        "The embedding is missing. How does a token id become a vector?",
        {ROWS: "times * elements"},
        points=TWO,
    ),
    Edit(
        "In training you look rows of the embedding up twice. Does its gradient need the table?",
        {ROWS: "times * (elements + new_tokens * h)"},
        points=TWO,
    ),
    Edit(
        "In decode you read one token too few. Does the new token attend to itself?",
        {SEEN: 'seq_len if phase == "decode"'},
        points=TWO,
    ),
    Edit(
        "Prefill writes your cache and never reads it. From where does its attention take the keys "
        "of earlier tokens?",
        {SEEN_BY_ONE: '(seq_len + 1) * (phase == "decode")'},
        points=TWO,
    ),
    Edit(
        "Your cache is read once for the whole batch. Can two sequences share what they remember?",
        {SEVERAL: "seen = 1 * "},
        points=TWO,
    ),
    Edit(
        "Your cache is that of one layer. How many layers remember?",
        {TOKEN: "token_bytes = 4 * cached"},
        points=ONE,
    ),
    Edit(
        "The output head is missing. What turns the last state into logits?",
        {HEAD: "h"},
        points=TWO,
    ),
    Edit(
        "In training you read the weights three times. Which of the two products of backward needs "
        "the weight?",
        {TIMES: TIMES.replace("2", "3", 1)},
        points=TWO,
    ),
    Edit(
        "In training you read the weights once. Which of the two products of backward needs them "
        "again?",
        {TIMES: "1"},
        points=TWO,
    ),
    Edit(
        "In decode you write the whole cache. Does a new token touch what lies there?",
        {WRITTEN: "token_bytes * seen * is_cached"},
        points=TWO,
    ),
    Edit(
        "Your training has a cache. Who will ask for the keys again when the step is over?",
        {'is_cached = phase != "train"': "is_cached = True"},
        points=ONE,
    ),
    Edit(
        "The norms are missing. What does each of them multiply with?",
        {" + 2 * h\n": "\n"},
        points=TWO,
    ),
    Edit(
        "The norms are missing. What does each of them multiply with?",
        {" + 2 * h\n": "\n", "layer + h + h": "layer + h"},
        points=TWO,
    ),
    Edit(
        "In training the norms are read once. What does the backward pass of a norm multiply with?",
        {ROWS: f"{ROWS} - (times - 1) * (2 * model.num_layers + 1) * h"},
        points=TWO,
    ),
    Edit(
        "One norm is missing. What stands between the last layer and the head?",
        {"layer + h + h": "layer + h"},
        points=TWO,
    ),
    Edit(
        "Your keys and values have matrices as large as the queries'. How many heads do they make?",
        {LAYER: "layer = 4 * h * heads"},
        points=TWO,
    ),
    Edit(
        "You take the width of the model for that of all heads together. Are they the same in "
        "every case?",
        {LAYER: "layer = 2 * h * h + 2 * h * cached"},
        points=TWO,
    ),
    Edit(
        "You take the width of a head from the width of the model. Which attribute of the model "
        "gives it in every case?",
        {
            "model.num_heads * model.head_dim": "model.hidden_size",
            "model.num_kv_heads * model.head_dim": "model.num_kv_heads * (h // model.num_heads)",
        },
    ),
    Edit(
        "Your feed-forward block has two matrices. How many has a gated one?",
        {"3 * h * model.ffn_size": "2 * h * model.ffn_size"},
        points=TWO,
    ),
    Edit(
        "You count numbers. How many bytes has each of them in bf16?",
        {
            "2 * (times * elements + new_tokens * h)": ROWS,
            TOKEN: TOKEN.replace("4", "2"),
        },
    ),
)

CHECK = Check(
    cases=step_cases,
    judge=EqualTo(
        counted,
        *edited("u02-step-bytes", EDITS),
        labels={
            "weights": "the bytes of weights",
            "cache_read": "the bytes read from the cache",
            "cache_written": "the bytes written to the cache",
        },
    ),
    fallback="course_utils.formulas.roofline.step_bytes",
    answers=COUNTERS,
)
