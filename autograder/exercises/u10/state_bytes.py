"""Check of what a rank keeps of a sharded state, against storages of its padded part."""

import random
from collections.abc import Mapping

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of, questions_of
from course_utils.configs import precision
from course_utils.instruments.storage import storage_bytes

FIELDS = ("num_params", "num_ranks", "stage", "recipe")
MANY_RANKS, BEYOND_A_FLOAT = 2**16, 2**54
RECIPES = ("bf16", "fp32", "bf16-fp32-gradients", "bf16-both-gradients")
# From which stage on a rank keeps a part alone.
FIRST_STAGE: Mapping[str, int] = {"weights": 3, "gradients": 2, "optimizer": 1}


def state_cases(seed: int) -> list[Case]:
    """Every stage and recipe; ranks that divide and that do not; one rank, and many."""
    rng = random.Random(seed)
    cases = [(10, 4, 2, "bf16")]
    for recipe in RECIPES:
        for stage in range(4):
            ranks = rng.randint(2, 99)
            params = rng.randint(10**6, 10**10)
            cases.append((params - (stage % 2) * (params % ranks), ranks, stage, recipe))
    cases += [(rng.randint(10, 99), 1, stage, "bf16") for stage in (1, 3)]
    cases += [(rng.randint(2, 9), rng.randint(10, 99), stage, "bf16") for stage in (1, 2, 3)]
    # So little over an even share that a float cannot tell.
    uneven = BEYOND_A_FLOAT + MANY_RANKS * rng.randint(1, 999) + 1
    cases += [(uneven, MANY_RANKS, stage, "bf16") for stage in (2, 3)]
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(num_params: int, num_ranks: int, stage: int, recipe: str) -> dict[str, int]:
    """Bytes of the storages that the last rank keeps: of all numbers, or of a part of its own."""
    sizes = precision(recipe)
    bytes_of_one = {
        "weights": sizes.weight_bytes,
        "gradients": sizes.gradient_bytes,
        "optimizer": sizes.master_weight_bytes + sizes.moment_bytes,
    }
    padded = num_params
    while padded % num_ranks:
        padded += 1
    kept = {}
    for name, num_bytes in bytes_of_one.items():
        is_part = stage >= FIRST_STAGE[name]
        rows = torch.empty(
            padded if is_part else num_params, num_bytes, dtype=torch.uint8, device="meta"
        )
        kept[name] = storage_bytes(rows.view(num_ranks, -1)[-1].clone() if is_part else rows)
    return kept


CHECK = Check(
    cases=state_cases,
    judge=EqualTo(
        measured,
        *mistakes_of("u10-state-bytes"),
        questions=questions_of("u10-state-bytes"),
    ),
    fallback="course_utils.formulas.sharding.sharded_state_bytes",
)
