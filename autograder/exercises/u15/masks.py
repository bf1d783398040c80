"""Check of dropout that differs from rank to rank and from step to step, and can be repeated."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u15.shared.gradients import LABELS, TOO_SHORT, TRAINERS
from autograder.observing.u15 import masks

FIELDS = ("num_ranks", "num_steps", "width", "seed")


def mask_cases(seed: int) -> list[Case]:
    """One rank to four, one step to three; small seeds, zero too, and large ones."""
    rng = random.Random(seed)
    cases = [(2, 2, 2, 7)]
    for number in range(20):
        num_ranks, num_steps = (2, 3, 4, 3, 1)[number % 5], (2, 1, 3, 2)[number % 4]
        some_seed = 0 if number % 7 == 3 else rng.randint(1, 10 ** rng.randint(1, 6))
        cases.append((num_ranks, num_steps, rng.randint(2, 4), some_seed))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Every mask once, gradients under them summed, a call for each parameter."""
    parameters = list(masks.Dropping(case["width"]).parameters())
    numbers = {
        "masks": case["num_ranks"] * case["num_steps"],
        "other_rows": 0,
        "kept_all": 0,
        "unrepeatable": 0,
        "seedless": 0,
        "on_other_rank": 0,
        "in_other_step": 0,
        "elsewhere": 0,
        "shifted": 0,
        "forged_calls": 0,
        "calls": len(parameters),
        "bytes": sum(each.nbytes for each in parameters),
        "wrong_ranks": 0,
    }
    return {**numbers, "numbers": numbers}


SEED, STEPS = "torch.manual_seed(seed + comm.rank)", "for batch in batches:"
CALL = "comm.all_reduce(each.grad)"
EVERY_STEP = (
    "Every step drops the same units, because you seed the generator again each time. How often "
    "should a run set its seed?"
)
AGAIN_EQUAL = (
    "All ranks draw the same random numbers, so all drop the same units. What could their seeds "
    "differ by?"
)
NO_SEED = (
    "The same seed gives other masks in the next run. What does your generator start from, and "
    "how would you repeat it tomorrow?"
)
EDITS = (
    Edit(
        "With seed 0, all ranks get the same seed. What is a product with zero?",
        {"seed + comm.rank": "seed * (comm.rank + 1)"},
    ),
    Edit(
        "Only rank 0 is seeded. What do the other ranks' generators start from?",
        {SEED: "if comm.rank == 0:\n        torch.manual_seed(seed)"},
    ),
    Edit(
        "Ranks share one stream of random numbers, a few numbers apart: shift a rank's mask by "
        "some units, and it is another's. What gives a rank a stream of its own?",
        {SEED: "torch.manual_seed(seed)\n    torch.rand(2 * comm.rank)"},
        shows=("shifted",),
    ),
    Edit(AGAIN_EQUAL, {SEED: "torch.manual_seed(seed)"}, shows=("on_other_rank",)),
    Edit(AGAIN_EQUAL, {"seed + comm.rank": "seed + comm.size"}, shows=("on_other_rank",)),
    Edit(
        "Some ranks share their masks: there are fewer seeds than ranks. Is your number "
        "different on each of them?",
        {"seed + comm.rank": "seed + (comm.rank > 0)"},
        shows=("on_other_rank",),
    ),
    Edit(
        "Some ranks share their masks: there are fewer seeds than ranks. Is your number "
        "different on each of them?",
        {"seed + comm.rank": "seed + comm.rank % 2"},
        shows=("on_other_rank",),
    ),
    Edit(
        EVERY_STEP,
        {SEED: "pass", STEPS: f"{STEPS}\n        {SEED}"},
        shows=("in_other_step",),
    ),
    Edit(
        AGAIN_EQUAL,
        {
            SEED: "pass",
            STEPS: f"for step, batch in enumerate(batches):\n        {SEED}".replace(
                "comm.rank", "step"
            ),
        },
        shows=("on_other_rank",),
    ),
    Edit(
        "A rank drops in one step what its neighbour drops in another: different ranks and steps "
        "have the same sum. Which number is different for every rank and step?",
        {
            SEED: "pass",
            STEPS: f"for step, batch in enumerate(batches):\n        {SEED}".replace(
                "comm.rank", "comm.rank + step"
            ),
        },
        shows=("elsewhere",),
    ),
    Edit(
        "Another seed changes nothing. What is the argument for?",
        {"seed + comm.rank": "comm.rank"},
        shows=("seedless",),
    ),
    Edit(
        "On rank 0 another seed changes nothing. What is a product with its rank?",
        {"seed + comm.rank": "seed * comm.rank"},
        shows=("seedless",),
    ),
    Edit(NO_SEED, {SEED: "pass"}, shows=("unrepeatable",)),
    Edit(NO_SEED, {SEED: "torch.seed()"}, shows=("unrepeatable",)),
    Edit(
        "Nothing is dropped any more. Was dropout the bug?",
        {SEED: "model.eval()"},
        shows=("kept_all",),
    ),
    Edit(TOO_SHORT, {CALL: f"{CALL}\n        each.grad /= comm.size"}, shows=("wrong_ranks",)),
    Edit(
        "Each rank computes all rows of the batch. Which rows are its own?",
        {"batch.tensor_split(comm.size)[comm.rank]": "batch"},
    ),
)

CHECK = Check(
    cases=mask_cases,
    observe=masks.observe,
    judge=Behaviour(
        measured,
        *edited("u15-masks", EDITS, observe=masks.observe),
        summarise=masks.summarise,
        questions={
            "masks": "How often does each rank run the model?",
            "on_other_rank": "Which seeds do two ranks have, and are they different?",
            "in_other_step": "How often do you seed the generator?",
            "elsewhere": "Which rank and step share a seed with another rank's other step?",
            "shifted": "Whose random numbers does a rank draw, only earlier or later?",
            "wrong_ranks": "Is each rank's gradient the sum of all ranks', and of all steps?",
            "calls": "How often is each gradient summed?",
        },
        labels=LABELS
        | {
            "masks": "masks of all ranks and steps",
            "other_rows": "forward passes with the wrong number of rows",
            "kept_all": "masks that drop nothing",
            "unrepeatable": "ranks that drop other units in a second run",
            "seedless": "ranks that drop the same units with another seed",
            "on_other_rank": "masks that another rank has in the same step",
            "in_other_step": "masks that the rank has in another step",
            "elsewhere": "masks that another rank has in another step",
            "shifted": "ranks whose masks are another rank's, shifted by some units",
            "wrong_ranks": "ranks without the summed gradients",
        },
    ),
    answers=TRAINERS,
)
