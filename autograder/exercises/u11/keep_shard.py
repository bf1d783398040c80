"""Check of a product with gathered tokens of which only the shard is kept."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u11 import keep_shard
from autograder.observing.u11.keep_shard import (
    KEPT,
    NUMBERS,
    OVERLAPPED,
    SCENARIOS,
    cluster_for,
    on_rank,
    tensors_of,
)
from course_utils.reference.tensor_parallel import gathered_product

FIELDS = ("scenario", "kind", "num_ranks", "tokens_per_rank", "hidden_size", "rows")
PLAIN, TURNED = "plain", "transposed gradient"


def keep_shard_cases(seed: int) -> list[Case]:
    """Each scenario on one rank to four; a gradient that is transposed; weights of every shape."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(NUMBERS, PLAIN, 2, 1, 2, 3)]
    for scenario in SCENARIOS:
        for num_ranks in (2, 4, 3, 2, 4, 3, 2 if scenario == OVERLAPPED else 1):
            kind = rng.choice((PLAIN, TURNED)) if len(cases) % 2 else TURNED
            least = 12 if scenario == OVERLAPPED else 2
            sizes = (rng.randint(least, least + 3) for _ in range(3))
            cases.append((scenario, kind, num_ranks, *sizes))
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """The products of all tokens; shard and weight kept; three calls; and the least time."""
    of_ranks = [tensors_of(case, rank) for rank in range(case["num_ranks"])]
    shards, weights, incoming = (list(each) for each in zip(*of_ranks, strict=True))
    whole = torch.cat(shards).detach()
    pairs = list(zip(weights, incoming, strict=True))
    of_whole = torch.stack([gradient @ weight.detach() for weight, gradient in pairs]).sum(0)
    tensors = {
        "result": [(whole @ weight.T).detach() for weight in weights],
        "shard": list(of_whole.chunk(case["num_ranks"])),
        "weight": [gradient.T @ whole for gradient in incoming],
    }
    wrong = {
        "early_weights": 0,
        "summed_weights": 0,
        "wrong_results": 0,
        "wrong_shards": 0,
        "wrong_weights": 0,
    }
    calls = {
        "forward_calls": 1,
        "backward_calls": 2,
        "other_calls": 0,
        "call_bytes": whole.nbytes,
    }
    right = {**tensors, "forged_calls": 0, "seconds": []}
    if case["scenario"] == NUMBERS:
        return {**right, **wrong}
    if case["scenario"] == KEPT:
        kept = shards[0].nbytes + weights[0].nbytes
        return {**right, "saved_bytes": kept, "copied_bytes": 0, "unseen_bytes": 0, **calls}
    run = cluster_for(case).run(on_rank, gathered_product, case)
    return {**right, **calls, **wrong, "late": 0, "seconds": [run.step_seconds]}


CHECK = Check(
    cases=keep_shard_cases,
    observe=keep_shard.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u11-keep-shard", keep_shard.observe),
        scenarios=SCENARIOS,
        labels=keep_shard.LABELS,
        summarise=keep_shard.summarise,
        questions=questions_of("u11-keep-shard"),
    ),
    fallback="course_utils.reference.tensor_parallel.gathered_product",
    answers=("course_utils.reference.tensor_parallel.gathered_product",),
)
