"""Check of attention over latents: its result, and that keys and values are never made again."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.checksums import checksum
from autograder.observing.u13 import latent_step
from autograder.observing.u13.latent_step import SIZES, inputs_of

SCENARIOS = ("result", "flops")
NAMES = ("scenario", *SIZES)


def latent_cases(seed: int) -> list[Case]:
    """One cached token and many; matrices that widen and that narrow."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("result", 2, 4, 10, 16, 8, 4, 12)]
    for number in range(21):
        context = 1 if number in (4, 8) else rng.randint(12, 40)
        rank, nope, rope = rng.randint(9, 20), rng.randint(5, 12), 2 * rng.randint(1, 4)
        sizes = rng.randint(2, 3), rng.randint(2, 5), context, rank, nope, rope, rng.randint(5, 12)
        cases.append((SCENARIOS[number % 2], *sizes))
    return [dict(zip(NAMES, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Keys and values of every head made and used one by one; FLOPs of the absorbed products."""
    q_nope, q_rope, latents, rope_keys, key_up, value_up = inputs_of(case)
    b, a, t, r, nope, rope, width = (case[name] for name in SIZES)
    out = torch.empty(b, a, width, dtype=torch.float64)
    for head in range(a):
        keys = torch.cat([latents @ key_up[:, head], rope_keys], -1)
        query = torch.cat([q_nope[:, head], q_rope[:, head]], -1)
        scores = (keys * query[:, None]).sum(-1) / (nope + rope) ** 0.5
        values = latents @ value_up[:, head]
        out[:, head] = (scores.softmax(-1)[..., None] * values).sum(1)
    right = {"wrong_rows": 0, "checksum": checksum(out, out), "out": out}
    into_latents, scored, summed, out_of_latents = nope * r, t * (r + rope), t * r, r * width
    flops = 2 * b * a * (into_latents + scored + summed + out_of_latents)
    return right | ({"flops": flops} if case["scenario"] == "flops" else {})


CHECK = Check(
    cases=latent_cases,
    observe=latent_step.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u13-latent-step", observe=latent_step.observe),
        summarise=latent_step.summarise,
        scenarios=SCENARIOS,
        labels=latent_step.LABELS,
        questions=questions_of("u13-latent-step"),
    ),
    fallback="course_utils.reference.latent_decode.latent_attention",
    answers=("course_utils.reference.latent_decode",),
)
