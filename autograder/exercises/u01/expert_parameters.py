"""Check of the total and active parameters of a mixture of experts."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u01.shared.counts import meta, one_layer
from course_utils.configs import Experts
from course_utils.instruments import count_flops
from course_utils.reference.experts import MixtureOfExperts

NAMES = (
    *("hidden_size", "num_experts", "experts_per_token"),
    *("expert_ffn_size", "num_shared_experts"),
)


def expert_cases(seed: int) -> list[Case]:
    """With and without shared experts, one expert for a token and several, published layers."""
    rng = random.Random(seed)
    sizes = [(4, 3, 1, 5, 0), (4, 3, 2, 5, 1)]
    for per_token in (1, 2, rng.randint(3, 8)):
        for shared in (0, 0, 0, 1, rng.randint(2, 3), rng.randint(2, 3)):
            num_experts = per_token + rng.randint(1, 56)
            width, inner = rng.randint(5, 99), rng.randrange(5, 99, 2)
            sizes.append((width, num_experts, per_token, inner, shared))
    sizes += [(4096, 8, 2, 14336, 0), (7168, 256, 8, 2048, 1)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


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


def expert_parameters(
    hidden_size: int,
    num_experts: int,
    experts_per_token: int,
    expert_ffn_size: int,
    num_shared_experts: int,
) -> dict[str, int]:
    """The course's own answer: a router, and gated experts of three matrices."""
    h, one = hidden_size, 3 * hidden_size * expert_ffn_size
    return {
        "total_parameters": h * num_experts + (num_experts + num_shared_experts) * one,
        "active_parameters": h * num_experts + (experts_per_token + num_shared_experts) * one,
    }


def _both(total: int, active: int) -> dict[str, int]:
    return {"total_parameters": total, "active_parameters": active}


CHECK = Check(
    cases=expert_cases,
    reference=expert_parameters,
    judge=EqualTo(
        measured_expert_parameters,
        Mistake(
            "Your active parameters leave the shared experts out. Which tokens do they see?",
            lambda h, e, k, f, s: {"active_parameters": h * e + 3 * h * f * k},
        ),
        Mistake(
            "You make all experts active. To how many does the router send one token?",
            lambda h, e, k, f, s: {"active_parameters": h * e + 3 * h * f * (e + s)},
        ),
        Mistake(
            "Your router scores only the chosen experts. How does it know which to choose?",
            lambda h, e, k, f, s: {"active_parameters": h * k + 3 * h * f * (k + s)},
        ),
        Mistake(
            "Your active parameters leave the router out. Does a token not go through it?",
            lambda h, e, k, f, s: {"active_parameters": 3 * h * f * (k + s)},
        ),
        Mistake(
            "Your router scores the shared experts too. Does it choose among them?",
            lambda h, e, k, f, s: _both(
                h * (e + s) + 3 * h * f * (e + s), h * (e + s) + 3 * h * f * (k + s)
            ),
        ),
        Mistake(
            "Every expert is in there, but nobody chooses among them. What turns a token into "
            "one score for each expert?",
            lambda h, e, k, f, s: _both(3 * h * f * (e + s), 3 * h * f * (k + s)),
        ),
        Mistake(
            "Your experts have two matrices. How many does a gate add?",
            lambda h, e, k, f, s: _both(h * e + 2 * h * f * (e + s), h * e + 2 * h * f * (k + s)),
        ),
        Mistake(
            "The shared experts are missing. Which tokens do they see?",
            lambda h, e, k, f, s: _both(h * e + 3 * h * f * e, h * e + 3 * h * f * k),
        ),
    ),
)
