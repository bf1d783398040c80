"""Check of a loop that generates tokens without waste: the same tokens, for less."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u02.shared.sizes import small_model
from autograder.observing.u02 import repair_generate
from autograder.observing.u02.repair_generate import SCENARIOS, setup_of


def generation_cases(seed: int) -> list[Case]:
    """Each scenario with one sequence and several, a short prompt and a long one, one new token."""
    rng = random.Random(seed)
    cases = []
    for number in range(20):
        batch, prompt, new = (
            (2, 6, 5),
            (1, rng.randint(2, 9), rng.randint(3, 6)),
            (rng.randint(2, 4), rng.randint(9, 14), rng.randint(3, 5)),
            (rng.randint(2, 3), 1, rng.randint(2, 5)),
        )[number // 5]
        model = small_model(rng, number // 5) | {"num_layers": 2}
        cases.append(
            {
                **{"scenario": SCENARIOS[number % 5], "model": model, "num_sequences": batch},
                **{"seq_len": prompt, "num_new": new, "is_training": number // 5 % 2 == 0},
            }
        )
    return cases


def measured(**case: Any) -> dict[str, Any]:
    """The most likely tokens by the whole model, which sees all of them every time."""
    model, tokens, num_new = setup_of(case)
    with torch.no_grad():
        for _ in range(num_new):
            likely = model(tokens)[:, -1].argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, likely], dim=1)
    b, s = case["num_sequences"], case["seq_len"]
    wanted = {
        "layers": {"positions": b * (s + num_new - 1), "times_cached": 1},
        "head": {"head_positions": b * num_new},
        "logits": {"logits_moved": 1},
        "graph": {"saved_tensors": 0},
        "waits": {"reads": 0},
    }
    return dict.fromkeys(FLAWS, 0) | wanted[case["scenario"]] | {"tokens": tokens}


FLAWS = (
    "flat",
    "restarted",
    "raised_twice",
    "shifted",
    "overwritten",
    "uncut",
    "wrong_shape",
    "wrong_tokens",
)
LABELS = {
    "flat": "The new tokens have the shape (b,).",
    "restarted": "New tokens do not see those before them.",
    "raised_twice": "New tokens see cells of the cache that are not filled.",
    "shifted": "New tokens are in the wrong place of the cache.",
    "overwritten": "New tokens are written over earlier ones.",
    "uncut": "New tokens see cells of the cache that are not filled.",
    "wrong_shape": "The shape of the tokens is not (b, s + num_new).",
    "wrong_tokens": "Some tokens are wrong.",
    "positions": "the positions that go through the layers",
    "times_cached": "how often each position is written to a cache",
    "head_positions": "the positions that go through the head",
    "logits_moved": "how often each token's logits are read or written outside of the head",
    "saved_tensors": "the tensors that autograd saves",
    "reads": "how often Python reads a number of a tensor",
}

CHECK = Check(
    cases=generation_cases,
    observe=repair_generate.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u02-repair-generate", observe=repair_generate.observe),
        scenarios=SCENARIOS,
        summarise=repair_generate.summarise,
        questions=questions_of("u02-repair-generate"),
        labels=LABELS,
    ),
    fallback="course_utils.reference.generation.generate",
    answers=("course_utils.reference.generation.generate",),
    allowed_names=(
        "course_utils.reference.generation.Cache",
        "course_utils.reference.generation.hidden_states",
        "course_utils.reference.transformer.Transformer",
    ),
)
