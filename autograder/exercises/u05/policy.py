"""Check of a policy: which operations keep their results, and which run again?"""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u05 import policy
from autograder.observing.u05.policy import Products

FFN_SIZES = (31, 47)


def policy_cases(seed: int) -> list[Case]:
    """GPT and Llama, fused and materialised attention, own and shared keys and values."""
    rng = random.Random(seed)
    cases: list[Case] = []
    for number in range(5):
        for kind in ("GPT", "Llama"):
            for attention in ("fused", "written out"):
                kv, group = rng.randint(1, 2), rng.randint(2, 3) if number % 2 else 1
                cases.append(
                    {
                        "kind": kind,
                        "attention": attention,
                        "num_sequences": number % 2 + 1,
                        "seq_len": rng.choice((5, 9)),
                        "num_heads": kv * group,
                        "num_kv_heads": kv * group if kind == "GPT" else kv,
                        "head_dim": 4,
                        "ffn_size": rng.choice(FFN_SIZES),
                    }
                )
    return cases


def measured(**case: Any) -> dict[str, int]:
    """What products make in a forward pass, and how many a backward pass has by itself."""
    layer, x = policy.layer_and_input(**case)
    with Products() as forward:
        result = layer(x)
    with Products() as backward:
        result.backward(torch.ones_like(result))
    return {"kept_bytes": forward.num_bytes, "products_in_backward": backward.count}


CHECK = Check(
    cases=policy_cases,
    observe=policy.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u05-policy", observe=policy.observe),
        questions=questions_of("u05-policy"),
        labels=policy.LABELS,
    ),
    fallback="course_utils.reference.recomputation.save_products",
    answers=("course_utils.reference.recomputation",),
)
