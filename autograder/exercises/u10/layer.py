"""Check of a sharded layer: gradients, calls, what it keeps, and whole weights alive at once."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing import replay
from autograder.observing.observation import length_of, upstream
from autograder.observing.u10 import layer

SCENARIOS = ("one rank", "some ranks", "memory")
MOST_RANKS_AT = 3  # number of the case


def layer_cases(seed: int) -> list[Case]:
    """One rank, some ranks, layers wide and tall; square ones for memory, with few rows."""
    rng = random.Random(seed)
    cases = []
    for number in range(21):
        scenario = SCENARIOS[(number + 1) % 3]
        ranks = 1 if scenario == "one rank" else (2, 2, 3)[number % 7 % 3]
        ranks = 4 if number == MOST_RANKS_AT else ranks
        width = ranks * rng.randint(1, 3)
        shape = [width, rng.randint(2, 7)] if number % 2 else [rng.randint(2, 7), width]
        if scenario == "memory":
            shape = [12 * rng.randint(1, 2)] * 2
        case = {"scenario": scenario, "num_ranks": ranks, "shape": shape, "rows": rng.randint(2, 6)}
        cases.append(case)
    return cases


def measured(**case: Any) -> dict[str, Any]:
    """Autograd's own product with the whole weight; the part of the sum of all ranks."""
    whole, inputs = layer.weight_of(case).requires_grad_(), []
    results = []
    for rank in range(case["num_ranks"]):
        inputs.append(layer.input_of(case, rank))
        y = (2 * inputs[-1]) @ whole.T
        y.backward(upstream(y))
        results.append(y.detach())
    assert whole.grad is not None
    parts = whole.grad.flatten().chunk(case["num_ranks"])
    last = layer.input_of(case, case["num_ranks"] - 1)
    return {
        "forged_calls": 0,
        "missing_dx": 0,
        "missing_dpart": 0,
        "wrong_y": 0,
        "wrong_dx": 0,
        "wrong_dpart": 0,
        "length": length_of(parts),
        "length_y": length_of(results),
        "length_dx": length_of(each.grad for each in inputs),
        "gathers": 2,
        "scatters": 1,
        "calls": 3,
        "sent_bytes": 3 * (whole.nbytes - 8 * len(parts[0])),
        "saved_bytes": last.nbytes + parts[0].nbytes,
        "unseen_bytes": 0,
        "alive": 1,
        "ranks": [
            {"y": y, "dx": x.grad, "dpart": part}
            for y, x, part in zip(results, inputs, parts, strict=True)
        ],
    }


CHECK = Check(
    cases=layer_cases,
    observe=layer.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u10-layer", observe=layer.observe),
        summarise=layer.summarise,
        scenarios=SCENARIOS,
        questions=questions_of("u10-layer"),
        labels=replay.LABELS
        | {
            "missing_dx": "ranks without a gradient of the input",
            "missing_dpart": "ranks without a gradient of their part",
            "wrong_y": "ranks with a wrong result",
            "wrong_dx": "ranks with a wrong gradient of the input",
            "wrong_dpart": "ranks with a wrong gradient of their part",
            "length": "the norm of the gradient of all parts",
            "length_y": "the norm of all results",
            "length_dx": "the norm of the gradient of all inputs",
            "gathers": "gathers of rank 0",
            "scatters": "scatters of rank 0",
            "calls": "calls of a rank",
            "sent_bytes": "bytes that rank 0 sends",
            "saved_bytes": "bytes that autograd keeps",
            "unseen_bytes": "bytes that stay alive where autograd does not see them",
            "alive": "tensors as large as the weight that are alive at once",
        },
    ),
    fallback="course_utils.reference.sharding.ShardedLinear",
    answers=("course_utils.reference.sharding",),
)
