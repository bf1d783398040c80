"""Check of attention whose heads are shared by ranks: gradients, calls, FLOPs."""

import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.observing.u11 import attention
from autograder.observing.u11.attention import SCENARIOS, UNSERVED, WEIGHTS, tensors_of
from autograder.observing.u11.blocks import Weights, whole_block

FIELDS = (
    "scenario",
    "num_ranks",
    "num_tokens",
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
)


def attention_cases(seed: int) -> list[Case]:
    """A key head for each query head, and groups; heads as wide as tokens together, or not."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(SCENARIOS[0], 2, 3, 4, 2, 2, 2)]
    for number in range(20):
        is_grouped, num_ranks = number % 2, (2, 2, 1, 2, 4, 4, 3, 2, 2, 1)[number % 10]
        kv_heads = num_ranks * rng.randint(1, 2)
        group = rng.randint(2, 3) if is_grouped else 1
        sizes = (rng.randint(2, 5), rng.choice((5, 6, 7)), group * kv_heads, kv_heads)
        cases.append((SCENARIOS[is_grouped], num_ranks, *sizes, rng.randint(2, 3)))
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """What one rank computes alone; one call each way; the FLOPs of its share of the heads."""
    x, weights = tensors_of(case)
    heads, kv_heads = (case[name] // case["num_ranks"] for name in ("num_heads", "num_kv_heads"))
    n, d = case["num_tokens"], case["head_dim"]
    products = 4 * n * case["hidden_size"] * (heads + kv_heads) * d
    scores = 4 * n * n * heads * d  # the fused kernel is counted by shapes, with the full square
    return {
        "forged_calls": 0,
        "forward_calls": 1,
        "backward_calls": 1,
        "other_calls": 0,
        "call_bytes": x.nbytes,
        **whole_block(x, weights, lambda x, w: whole_attention(x, w, d)),
        **{f"wrong_{name}": 0 for name in WEIGHTS},
        "forward_flops": products + scores,
        "backward_flops": 2 * products + 5 * scores // 2,
        UNSERVED: 0,
    }


def whole_attention(x: Tensor, w: Weights, head_dim: int) -> Tensor:
    """Causal attention on one rank, with every score written out."""
    q, k, v = ((x @ w[name].T).unflatten(-1, (-1, head_dim)).transpose(0, 1) for name in "qkv")
    k, v = (each.repeat_interleave(len(q) // len(each), 0) for each in (k, v))
    is_later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    scores = (q @ k.mT * head_dim**-0.5).masked_fill(is_later, -torch.inf)
    out: Tensor = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
    return out @ w["o"].T


def _own_part(*sizes: Any) -> dict[str, int]:
    """A share of the work, and no call."""
    right = measured(**dict(zip(FIELDS, sizes, strict=True)))
    return {"forward_calls": 0, "other_calls": 0, "forward_flops": right["forward_flops"]}


def _heads_gathered(*sizes: Any) -> dict[str, int]:
    """A right result without g, of the whole last product."""
    case = dict(zip(FIELDS, sizes, strict=True))
    others = case["num_heads"] - case["num_heads"] // case["num_ranks"]
    more = 2 * case["num_tokens"] * case["hidden_size"] * others * case["head_dim"]
    flops = measured(**case)["forward_flops"] + more
    return {"forward_calls": 0, "wrong_results": 0, "forward_flops": flops}


OWN_PART = (
    "Every rank ends with what its own heads contribute. What does a product over some of the "
    "heads lack?"
)

SYMPTOMS = (  # in this order: on one rank, a share of the work is all of it
    Symptom(OWN_PART, _own_part),
    Symptom(
        "The result is right, and every rank gathers all heads to compute the whole last product. "
        "What of that product could a rank compute of its own heads alone?",
        _heads_gathered,
    ),
)

CHECK = Check(
    cases=attention_cases,
    observe=attention.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u11-attention", attention.observe),
        *SYMPTOMS,
        scenarios=SCENARIOS,
        relative_tolerance=1e-9,
        labels=attention.LABELS,
        summarise=attention.summarise,
        questions=questions_of("u11-attention"),
    ),
    fallback="course_utils.reference.tensor_parallel.parallel_attention",
    answers=("course_utils.reference.tensor_parallel.parallel_attention",),
    allowed_names=("course_utils.reference.attention.attend",),
)
