"""Gradients summed after the backward pass, in one call for each parameter or in one for all."""

import random
from typing import Any

from autograder.checking.exercise_check import Case
from autograder.exercises.u09.shared.backward_steps import BUCKETERS
from autograder.observing.observation import length_of
from autograder.observing.replay import LABELS as REPLAY_LABELS
from autograder.observing.u09.after_backward import (
    Net,
    frozen,
    gradients_of,
    losses_of,
    ranks_of,
    trained,
)

SCENARIOS = ("all used", "unused on a rank", "frozen", "gradients before")
FIELDS = ("scenario", "num_ranks", "width", "num_layers", "is_bias_shared", "is_transposed")
NUM_CASES = 20
MOST_RANKS = 4

LABELS = REPLAY_LABELS | {
    "missing": "gradients that are None afterwards",
    "other_shapes": "gradients that lack their parameter's shape",
    "calls": "calls to the other ranks",
    "bytes": "bytes in these calls",
    "length": "the length of rank 0's gradient",
    "length_on_last": "the length of the last rank's gradient",
    "changed_frozen": "frozen parameters whose grad has changed, on all ranks",
    "wrong_ranks": "ranks without the gradient of the whole batch",
}

# What does the same, and so answers these exercises.
TRAINERS = ("course_utils.reference.gradient_sync", *BUCKETERS)


def cases_of(scenarios: tuple[str, ...], seed: int, transposed: tuple[str, ...] = ()) -> list[Case]:
    """Each scenario on one to four ranks, on four with a bias that two layers share.

    For memory, layers are large beside their inputs. In the scenarios called transposed a weight is
    stored so on four ranks.
    """
    rng = random.Random(seed)
    cases = [_case("all used", 2, 3, 2, False, False)]
    for scenario in scenarios:
        first = 2 if scenario == "unused on a rank" else 1  # alone, no other rank has a gradient
        for num_ranks in (first, 2, MOST_RANKS, 2, 3)[: NUM_CASES // len(scenarios)]:
            width = rng.randint(16, 24) if scenario == "memory" else rng.randint(2, 9)
            is_shared = num_ranks == MOST_RANKS and scenario != "memory"
            is_transposed = num_ranks == MOST_RANKS and scenario in transposed
            num_layers = 1 + (num_ranks == 2)
            cases.append(_case(scenario, num_ranks, width, num_layers, is_shared, is_transposed))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch, computed on one rank; a call for each parameter."""
    model = Net(case)
    for rank in range(case["num_ranks"]):
        for loss in losses_of(model, case, rank):
            loss.backward()
    gradients = gradients_of(trained(model))
    return {
        "missing": 0,
        "other_shapes": 0,
        "calls": len(gradients),
        "bytes": sum(each.nbytes for each in trained(model)),
        "length": length_of(gradients),
        "length_on_last": length_of(gradients),
        "changed_frozen": 0,
        "wrong_ranks": 0,
        "forged_calls": 0,
        "gradients": gradients,
        "frozen": [gradients_of(frozen(each)) for each, _ in ranks_of(case)],
    }
