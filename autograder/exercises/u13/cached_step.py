"""Check of a step of decoding: its result, and that it reads the cache once and copies nothing."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.checksums import checksum
from autograder.observing.u13 import cached_step
from autograder.observing.u13.cached_step import inputs_of

SCENARIOS = ("result", "bytes")
NAMES = ("scenario", "num_sequences", "num_heads", "num_kv_heads", "width", "length", "room")
ELEMENT_BYTES = 8


def step_cases(seed: int) -> list[Case]:
    """Shared keys in most cases, own ones in some; an empty cache, one that is full afterwards."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("result", 2, 4, 2, 16, 20, 24)]
    for number in range(21):
        scenario = SCENARIOS[number % 2]
        a_kv = rng.randint(2, 3)
        a = a_kv * (1 if number % 7 == 3 else rng.randint(2, 3))
        length = rng.randint(12, 40) if number % 5 or scenario == "bytes" else 0
        room = length + 1 + (0 if number % 4 == 1 else rng.randint(2, 9))
        cases.append((scenario, rng.randint(2, 3), a, a_kv, 16, length, room))
    cases.append(("bytes", 2, 8, 1, 32, rng.randint(20, 38), 40))
    return [dict(zip(NAMES, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Attention head by head, over the tokens up to the new one; the least bytes of the cache."""
    q, k_new, *_ = inputs_of(case)
    k_cache, v_cache = cached_step.buffers_afterwards(case)
    length, group = case["length"], case["num_heads"] // case["num_kv_heads"]
    out = torch.empty_like(q)
    for head in range(case["num_heads"]):
        keys, values = (each[:, head // group, : length + 1] for each in (k_cache, v_cache))
        scores = (keys * q[:, head, None]).sum(-1) * case["width"] ** -0.5
        out[:, head] = (scores.softmax(-1)[..., None] * values).sum(1)
    right = {
        **{"wrong_cells": 0, "wrong_rows": 0},
        "checksum": checksum(out, out),
        "out": out,
    }
    if case["scenario"] != "bytes":
        return right
    token = 2 * k_new.numel() * ELEMENT_BYTES
    moved = {"read_bytes": (length + 1) * token, "written_bytes": token}
    return right | moved | {"times_copied": 0.0}


KEY, VALUE = "k_cache[:, :, length] = k_new", "v_cache[:, :, length] = v_new"
KEYS, VALUES = "keys = k_cache[:, :, : length + 1]", "values = v_cache[:, :, : length + 1]"
ATTENTION = "F.scaled_dot_product_attention(q[:, :, None], keys, values, enable_gqa=True)"
GROUP = "q.shape[1] // k_cache.shape[1]"
COPIED = (
    "The result is right, and a tensor as large as the cache is made on the way. Which of your "
    "operations copies keys and values?"
)
CELLS = ("wrong_cells",)
JOINED = {
    KEYS: "keys = torch.cat([k_cache[:, :, :length], k_new[:, :, None]], 2)",
    VALUES: "values = torch.cat([v_cache[:, :, :length], v_new[:, :, None]], 2)",
}
EDITS = (
    Edit(
        "The result is right, and keys are copied for each query head. How many different keys "
        "are there, and which argument lets heads share them?",
        {
            KEYS: f"{KEYS}.repeat_interleave({GROUP}, 1)",
            VALUES: f"{VALUES}.repeat_interleave({GROUP}, 1)",
        },
        points=1.5,
        shows=("times_copied",),
    ),
    Edit(
        "You join old and new to a new tensor, so the buffers stay as they were. How many tokens "
        "are new, and where is room for them?",
        {f"{KEY}\n    ": "", f"{VALUE}\n    ": "", **JOINED},
        shows=CELLS,
    ),
    Edit(
        "The result is right, and in every step all old tokens are joined with the new one in "
        "another tensor. Which tensor has them side by side already?",
        JOINED,
        points=1.5,
        shows=("read_bytes",),
    ),
    Edit(COPIED, {KEYS: f"{KEYS}.clone()", VALUES: f"{VALUES}.clone()"}, 1.5, ("times_copied",)),
    Edit(
        "You attend to cells that nobody has written. How many tokens are there with the new one?",
        {KEYS: "keys = k_cache", VALUES: "values = v_cache"},
    ),
    *(
        Edit(
            "The new token does not see itself. How many tokens are in the cache once it is "
            "written?",
            {KEYS: f"keys = k_cache[:, :, :{end}]", VALUES: f"values = v_cache[:, :, :{end}]"},
        )
        for end in ("length", " max(1, length)")
    ),
    Edit(
        "The kernel shows your one query the first key alone. Which keys does `is_causal` show to "
        "query 0, and which may this one see?",
        {ATTENTION: ATTENTION.replace("enable_gqa=True", "is_causal=True, enable_gqa=True")},
    ),
    Edit(
        "The new key lies one cell off. Which cell is the first free one, if cells count from 0?",
        {
            KEY: "k_cache[:, :, length - 1] = k_new",
            VALUE: "v_cache[:, :, length - 1] = v_new",
        },
        shows=CELLS,
    ),
    Edit(
        "Heads are shared in another order. Which query heads has the first key head?",
        {
            KEYS: f"{KEYS}.repeat(1, {GROUP}, 1, 1)",
            VALUES: f"{VALUES}.repeat(1, {GROUP}, 1, 1)",
        },
        shows=("wrong_rows", "wrong_cells", "checksum"),
    ),
    Edit(
        "By what are the scores divided? Is it done twice?",
        {"q[:, :, None], keys": "q[:, :, None] * q.shape[-1] ** -0.5, keys"},
    ),
    Edit(
        "The keys are written and the values are not. What does the next token need of this one?",
        {VALUE: "v_cache[:, :, length] += 0"},
        shows=CELLS,
    ),
)

CHECK = Check(
    cases=step_cases,
    observe=cached_step.observe,
    judge=Behaviour(
        measured,
        *edited("u13-cached-step", EDITS, observe=cached_step.observe),
        summarise=cached_step.summarise,
        scenarios=SCENARIOS,
        labels=cached_step.LABELS,
        questions={
            "wrong_cells": "Which cells of the buffers may change, and to what?",
            "wrong_rows": "Which tokens does the query see, by what are scores divided, and which "
            "heads share a key?",
            "read_bytes": "The result is right. How often do you read the filled part of the "
            "buffers, and do you read beyond it?",
            "written_bytes": "The result is right. How many cells do you write, and how many are "
            "new?",
            "times_copied": COPIED,
        },
    ),
    fallback="course_utils.reference.cached_block.decode_attention",
    answers=("course_utils.reference.cached_block", "course_utils.reference.generation"),
)
