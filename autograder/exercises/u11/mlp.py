"""Check of a gated MLP cut over ranks: gradients, calls, FLOPs."""

import random
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u11 import mlp
from autograder.observing.u11.blocks import Weights, whole_block
from autograder.observing.u11.mlp import ABSENT, SCENARIOS, WEIGHTS, tensors_of

FLOAT64_BYTES = 8
FIELDS = ("scenario", "num_ranks", "num_tokens", "hidden_size", "ffn_size")


def mlp_cases(seed: int) -> list[Case]:
    """Hidden units that the ranks share evenly, and such that they do not; one rank to four."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("even", 2, 3, 2, 4)]
    for scenario in SCENARIOS:
        for num_ranks in (1, 2, 4, 2, 3, 4, 2, 3, 4, 2)[scenario == "uneven" :]:
            rest = rng.randint(1, num_ranks - 1) if scenario == "uneven" else 0
            units = num_ranks * rng.randint(2, 3) + rest
            units = 9 if (scenario, num_ranks) == ("uneven", 4) else units  # `chunk` makes three
            cases.append((scenario, num_ranks, rng.randint(2, 4), rng.randint(2, 6), units))
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def whole_mlp(x: Tensor, w: Weights) -> Tensor:
    """The MLP on one rank."""
    return (F.silu(x @ w["gate"].T) * (x @ w["up"].T)) @ w["down"].T + w["bias"]


def measured(**case: Any) -> dict[str, Any]:
    """What one rank computes alone; one call each way; the FLOPs of the largest part."""
    x, weights = tensors_of(case)
    units = -(-case["ffn_size"] // case["num_ranks"])
    flops = 6 * case["num_tokens"] * case["hidden_size"] * units
    return {
        "forged_calls": 0,
        "forward_calls": 1,
        "backward_calls": 1,
        "other_calls": 0,
        "call_bytes": x.nbytes,
        **whole_block(x, weights, whole_mlp),
        **{f"wrong_{name}": 0 for name in WEIGHTS},
        "forward_flops": flops,
        "backward_flops": 2 * flops,
        ABSENT: 0,
    }


def _own_part(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """A share of the work, and no call."""
    flops = 6 * n * h * -(-units // num_ranks)
    return {"forward_calls": 0, "other_calls": 0, "forward_flops": flops}


def _units_gathered(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """A right result without g, of the whole last product."""
    flops = 4 * n * h * -(-units // num_ranks) + 2 * n * h * units
    return {"forward_calls": 0, "wrong_results": 0, "forward_flops": flops}


def _entered_by_sum(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """A share of the work, and a second sum."""
    flops = 6 * n * h * -(-units // num_ranks)
    return {"forward_calls": 2, "other_calls": 0, "wrong_results": 0, "forward_flops": flops}


def _inputs_cut(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """Two sums of all hidden units, each rank with a part of x, and the whole last product."""
    flops = 4 * n * -(-h // num_ranks) * units + 2 * n * h * units
    return {"forward_calls": 2, "other_calls": 0, "wrong_results": 0, "forward_flops": flops}


def _inputs_cut_one_sum(_: str, num_ranks: int, n: int, h: int, units: int) -> dict[str, int]:
    """As before, with gate and up in one sum, which is seen on one rank, too."""
    call_bytes = 2 * n * units * FLOAT64_BYTES
    return _inputs_cut(_, num_ranks, n, h, units) | {"forward_calls": 1, "call_bytes": call_bytes}


OWN_PART = (
    "Every rank ends with its own part of the sum. What does a product over some of the hidden "
    "units lack?"
)
ENTERED_BY_SUM = (
    "The result is right, and so many all-reduces are not needed: what enters is the same on "
    "all ranks. What does f do to it in forward?"
)

SYMPTOMS = (  # in this order: on one rank, a share of the work is all of it
    Symptom(OWN_PART, _own_part),
    Symptom(
        "The result is right, and every rank gathers all hidden units to compute the whole last "
        "product. What of that product could a rank compute of its own hidden units alone?",
        _units_gathered,
    ),
    Symptom(ENTERED_BY_SUM, _entered_by_sum),
    Symptom(
        "The result is right, and each rank takes a part of x for all hidden units: gate and up "
        "each need a sum over ranks. With which part of gate and up would a rank need nobody's "
        "help before down?",
        _inputs_cut,
    ),
    Symptom(
        "The result is right, and one call sums gate and up of all hidden units: no rank knows "
        "silu's input before it, and each computes the whole last product after it. How would you "
        "cut gate and up so that a rank knows some hidden units whole?",
        _inputs_cut_one_sum,
    ),
)

CHECK = Check(
    cases=mlp_cases,
    observe=mlp.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u11-mlp", mlp.observe),
        *SYMPTOMS,
        scenarios=SCENARIOS,
        relative_tolerance=1e-9,
        labels=mlp.LABELS,
        summarise=mlp.summarise,
        questions=questions_of("u11-mlp"),
    ),
    fallback="course_utils.reference.tensor_parallel.parallel_mlp",
    answers=("course_utils.reference.tensor_parallel.parallel_mlp",),
)
