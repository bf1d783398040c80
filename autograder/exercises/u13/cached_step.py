"""Check of a step of decoding: its result, and that it reads the cache once and copies nothing."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
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


CHECK = Check(
    cases=step_cases,
    observe=cached_step.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u13-cached-step", observe=cached_step.observe),
        summarise=cached_step.summarise,
        scenarios=SCENARIOS,
        labels=cached_step.LABELS,
        questions=questions_of("u13-cached-step"),
    ),
    fallback="course_utils.reference.cached_block.decode_attention",
    answers=("course_utils.reference.cached_block", "course_utils.reference.generation"),
)
