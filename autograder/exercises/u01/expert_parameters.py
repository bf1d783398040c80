"""Check of the total and active parameters of a mixture of experts."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
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


ACTIVE, ALL = "(experts_per_token + num_shared_experts)", "(num_experts + num_shared_experts)"
ROUTER, ACTIVE_ROUTER = "hidden_size * num_experts", '"active_parameters": router +'
TOTAL_COUNT, ACTIVE_COUNT = (f"router + {each} * one_expert" for each in (ALL, ACTIVE))
EDITS = (
    Edit(
        "Your router disappears when a token goes to every expert. Does the exercise's layer "
        "have a router then?",
        {ROUTER: "hidden_size * num_experts * (experts_per_token < num_experts)"},
    ),
    Edit(
        "Your active parameters leave out the shared experts. Which tokens see them?",
        {ACTIVE: "experts_per_token"},
        points=1.0,
    ),
    Edit(
        "You count all experts as active. To how many does the router send one token?",
        {ACTIVE: ALL},
        points=1.0,
    ),
    Edit(
        "Your router scores only the chosen experts. How does it know which to choose?",
        {ACTIVE_ROUTER: '"active_parameters": hidden_size * experts_per_token +'},
        points=1.0,
    ),
    Edit(
        "Your active parameters leave out the router. Which tokens go through it?",
        {ACTIVE_ROUTER: '"active_parameters":'},
        points=1.0,
    ),
    Edit(
        "Your router scores the shared experts too. Does it choose among them?",
        {ROUTER: "hidden_size * (num_experts + num_shared_experts)"},
    ),
    Edit(
        "You count every expert, but nothing that chooses among them. What turns a token into "
        "one score per expert?",
        {ROUTER: "0"},
    ),
    Edit(
        "Your experts have two matrices. How many does a gated block have?",
        {"3 * hidden_size": "2 * hidden_size"},
    ),
    Edit(
        "The shared experts are missing. Which tokens see them?",
        {ALL: "num_experts", ACTIVE: "experts_per_token"},
    ),
)

CHECK = Check(
    cases=expert_cases,
    judge=EqualTo(measured_expert_parameters, *edited("u01-expert-parameters", EDITS)),
    fallback="course_utils.formulas.designs.expert_parameters",
    answers=(*COUNTERS, "course_utils.reference.experts.MixtureOfExperts"),
)
