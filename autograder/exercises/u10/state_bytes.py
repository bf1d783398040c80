"""Check of what a rank keeps of a sharded state, against storages of its padded part."""

import random
from collections.abc import Mapping

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


WEIGHTS, GRADIENTS, OPTIMIZER = (
    "(part if stage == 3 else num_params)",
    "(part if stage >= 2 else num_params)",
    "(part if stage >= 1 else num_params)",
)
PART = "-(-num_params // num_ranks)"
NOT_PADDED = (
    "Right where the ranks divide the parameters. Ten numbers in four equal parts: how long is "
    "each?"
)


def _rounded(one: str, first_stage: int) -> str:
    """Bytes rounded up after they are shared, in place of numbers."""
    every = f"{one} * num_params"
    return f"-(-{every} // (num_ranks if stage >= {first_stage} else 1))"


OF_OPTIMIZER = f"of_optimizer * {OPTIMIZER}"
HALF_SHARDED = (
    "Of the optimizer's two kinds of state you keep one whole. Which numbers of it does a rank "
    "read when it updates its part?"
)
EDITS = (
    Edit(NOT_PADDED, {PART: "num_params // num_ranks"}),
    Edit(
        "One number too many where the ranks divide the parameters. How long are four equal parts "
        "of twelve?",
        {PART: "num_params // num_ranks + 1"},
    ),
    Edit(
        "You round bytes. A rank holds whole numbers: which division has to come first?",
        {
            f"one.weight_bytes * {WEIGHTS}": _rounded("one.weight_bytes", 3),
            f"one.gradient_bytes * {GRADIENTS}": _rounded("one.gradient_bytes", 2),
            OF_OPTIMIZER: _rounded("of_optimizer", 1),
        },
    ),
    Edit(
        "What stays whole is padded, too. Why would numbers need it that nobody cuts into parts?",
        {
            kind: kind.replace("num_params", "part * num_ranks")
            for kind in (WEIGHTS, GRADIENTS, OPTIMIZER)
        },
    ),
    Edit(
        "In your stage 1 gradients are parts already. What does a stage 1 rank still keep whole?",
        {GRADIENTS: GRADIENTS.replace("2", "1")},
        points=1.0,
    ),
    Edit(
        "In stage 2 your gradients are whole. Which of the three kinds does each stage add?",
        {GRADIENTS: GRADIENTS.replace(">= 2", "== 3")},
        points=1.0,
    ),
    Edit(
        "Gradients are parts in your stage 2, and whole again in stage 3. Does a stage take back "
        "what one before has sharded?",
        {GRADIENTS: GRADIENTS.replace(">=", "==")},
        points=1.0,
    ),
    Edit(
        "The optimizer's state is a part in your stage 1 alone. Does a stage take back what one "
        "before has sharded?",
        {OPTIMIZER: OPTIMIZER.replace(">=", "==")},
        points=1.0,
    ),
    Edit(
        "Weights are whole in your stage 3. What is there left to shard after gradients?",
        {WEIGHTS: "num_params"},
        points=1.0,
    ),
    Edit(
        "Weights are parts in your stage 2 already. Which stage gathers them?",
        {WEIGHTS: WEIGHTS.replace("== 3", ">= 2")},
        points=1.0,
    ),
    Edit(
        "Everything is a part in each of your stages. What is still whole in stage 1?",
        {WEIGHTS: "part", GRADIENTS: "part", OPTIMIZER: "part"},
    ),
    Edit(
        "The optimizer holds the fp32 copy of the weights, too. Which stage makes a part of it?",
        {"one.master_weight_bytes + one.moment_bytes": "one.moment_bytes"},
        points=1.0,
    ),
    *(
        Edit(
            HALF_SHARDED,
            {OF_OPTIMIZER: f"one.{part} * {OPTIMIZER} + one.{whole} * num_params"},
            points=1.0,
        )
        for part, whole in (
            ("master_weight_bytes", "moment_bytes"),
            ("moment_bytes", "master_weight_bytes"),
        )
    ),
    Edit(
        "The optimizer's part has one moment more, or fewer, than Adam keeps. Are `moment_bytes` "
        "those of one moment or of both?",
        {
            "one.master_weight_bytes + one.moment_bytes": "one.master_weight_bytes + 2 * "
            "one.moment_bytes"
        },
        points=1.0,
    ),
    Edit(
        "The bytes of one weight, gradient or moment depend on the recipe. Where are yours from?",
        {
            "precision(recipe)": 'precision("bf16")',
        },
    ),
)

CHECK = Check(
    cases=state_cases,
    judge=EqualTo(
        measured,
        *edited("u10-state-bytes", EDITS),
        questions={
            "weights": "From which stage on does a rank keep only a part of the weights, and how "
            "long is that part?",
            "gradients": "From which stage on does a rank keep only a part of the gradients, and "
            "how long is that part?",
            "optimizer": "What does the optimizer hold for each weight, and from which stage on "
            "for a part alone?",
        },
    ),
    fallback="course_utils.formulas.sharding.sharded_state_bytes",
)
