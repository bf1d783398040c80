"""Check of the total and active parameters of a mixture of experts."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    just_above,
    meta,
    one_at_a_time,
    one_layer,
)
from course_utils.configs import Experts
from course_utils.instruments import count_flops
from course_utils.reference.experts import MixtureOfExperts

NAMES = (
    *("hidden_size", "num_experts", "experts_per_token"),
    *("expert_ffn_size", "num_shared_experts"),
)


def expert_cases(seed: int) -> list[Case]:
    """With and without shared experts; one expert for a token, several, all; published layers.

    The two counts of the last case are beyond a float and beyond what an int64 holds.
    """
    rng = random.Random(seed)
    sizes = [(4, 3, 1, 5, 0), (4, 3, 2, rng.randrange(5, 99, 2), 1)]
    for per_token in (1, 2, rng.randint(3, 8)):
        for shared in (0, 0, 0, 1, rng.randint(2, 3), rng.randint(2, 3)):
            num_experts = per_token + rng.randint(1, 56)
            width, inner = rng.randint(5, 99), rng.randrange(5, 99, 2)
            sizes.append((width, num_experts, per_token, inner, shared))
    sizes += [
        (4096, 8, 2, 64 * rng.randint(99, 300), 0),
        (7168, 256, 8, 64 * rng.randint(20, 60), 1),
    ]
    num_experts = rng.randint(2, 9)
    sizes += [
        (rng.randint(5, 99), 1, 1, 7, 0),
        (rng.randint(5, 99), num_experts, num_experts, 7, 1),
    ]
    beyond = (just_above(27, rng), 8, 7, 15 * just_above(27, rng), 8)
    start, end = (16, 9, 2, rng.randint(5, 49), 1), (8, 12, 3, rng.randint(50, 99), 2)
    named = [dict(zip(NAMES, each, strict=True)) for each in (*sizes, beyond, start, end)]
    return [*named[:-2], *one_at_a_time(*named[-2:])]


def measured_expert_parameters(
    hidden_size: int,
    num_experts: int,
    experts_per_token: int,
    expert_ffn_size: int,
    num_shared_experts: int,
) -> dict[str, int]:
    """The numbers in the layer's tensors, and half of the FLOPs of one token."""
    sizes = Experts(
        num_experts=num_experts,
        experts_per_token=experts_per_token,
        expert_ffn_size=expert_ffn_size,
        num_shared_experts=num_shared_experts,
    )
    model = one_layer(hidden_size, experts=sizes)
    layer = MixtureOfExperts(model, sizes, "meta")
    num_tokens = num_experts  # so that every expert gets whole tokens
    counted = count_flops(lambda: layer(meta(1, num_tokens, hidden_size))).forward_flops
    return {
        "total_parameters": sum(weight.numel() for weight in layer.parameters()),
        "active_parameters": counted // (2 * num_tokens),
    }


CHECK = Check(
    cases=expert_cases,
    judge=EqualTo(measured_expert_parameters, *mistakes_of("u01-expert-parameters")),
    fallback="course_utils.formulas.designs.expert_parameters",
    answers=(*COUNTERS, "course_utils.reference.experts.MixtureOfExperts"),
)
