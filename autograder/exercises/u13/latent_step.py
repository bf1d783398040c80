"""Check of attention over latents: its result, and that keys and values are never made again."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
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


SCALE = "(q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5"
QUERY, LATENT_SCORES = 'torch.einsum("ban,ran->bar", q_nope, key_up)', "q_latent @ latents.mT"
ROPE, WEIGHTS = " + q_rope @ rope_keys.mT", "(scores * scale).softmax(-1)"
SUMMED = "weights @ latents"
RESULT = 'torch.einsum("bar,raw->baw", summed, value_up)'
VALUES = 'torch.einsum("btr,raw->batw", latents, value_up)'
EXPANDED_VALUES = {SUMMED: VALUES, RESULT: "(weights[:, :, None] @ summed)[:, :, 0]"}
EXPANDED_KEYS = {
    QUERY: 'torch.einsum("btr,ran->batn", latents, key_up)',
    LATENT_SCORES: "(q_latent @ q_nope[..., None])[..., 0]",
}
FLOPS = ("flops",)
EDITS = (
    Edit(
        "The result is right, and values of all heads are made again for every cached token. Over "
        "what can you sum first: positions, or latent numbers?",
        EXPANDED_VALUES,
        points=1.25,
        shows=FLOPS,
    ),
    Edit(
        "The result is right, and keys of all heads are made again for every cached token. Which "
        "product of query and matrix is the same for all of them?",
        EXPANDED_KEYS,
        points=1.25,
        shows=FLOPS,
    ),
    Edit(
        "The result is right, and keys and values are made again that the last step made already. "
        "Which of your tensors has heads *and* cached tokens *and* a width?",
        {**EXPANDED_KEYS, **EXPANDED_VALUES},
        points=1.25,
        shows=FLOPS,
    ),
    Edit(
        "Your scale is that of the part without position. How wide was a key before anything was "
        "absorbed?",
        {SCALE: "q_nope.shape[-1] ** -0.5"},
    ),
    Edit(
        "Your scale is that of a latent. How wide was a key before anything was absorbed?",
        {SCALE: "latents.shape[-1] ** -0.5"},
    ),
    Edit(
        "Your scale is that of a latent and a rotary key. How wide was a key before anything was "
        "absorbed?",
        {SCALE: "(latents.shape[-1] + q_rope.shape[-1]) ** -0.5"},
    ),
    Edit("By what are scores divided before the softmax?", {WEIGHTS: "scores.softmax(-1)"}),
    Edit(
        "Only one part of the scores is there. Which part of a key has a position?",
        {ROPE: ""},
    ),
    Edit(
        "Weights of a query add up over the heads with you. Over which of the axes do cached "
        "tokens lie?",
        {WEIGHTS: "(scores * scale).softmax(1)"},
    ),
    Edit(
        "Each part has a softmax of its own. What is added first, scores or weights?",
        {
            WEIGHTS: "(q_latent @ latents.mT * scale).softmax(-1) / 2 + (q_rope @ rope_keys.mT "
            "* scale).softmax(-1) / 2",
        },
        shows=("wrong_rows", "checksum"),
    ),
)

CHECK = Check(
    cases=latent_cases,
    observe=latent_step.observe,
    judge=Behaviour(
        measured,
        *edited("u13-latent-step", EDITS, observe=latent_step.observe),
        summarise=latent_step.summarise,
        scenarios=SCENARIOS,
        labels=latent_step.LABELS,
        questions={
            "wrong_rows": "Which two parts has a score, by what is it divided, and what is summed "
            "with the weights?",
            "flops": "The result is right. Which of your products has heads, cached tokens and "
            "both widths in it?",
        },
    ),
    fallback="course_utils.reference.latent_decode.latent_attention",
    answers=("course_utils.reference.latent_decode",),
)
