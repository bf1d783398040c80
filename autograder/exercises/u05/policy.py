"""Check of a policy: which operations keep their results, and which run again?"""

import json
import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.configs import Kernels, ModelConfig
from course_utils.instruments import count_flops, count_saved_bytes
from course_utils.reference import Block
from course_utils.reference.recomputation import PRODUCTS

KINDS = ("GPT", "Llama")
ATTENTIONS = ("fused", "written out")
Policy = Callable[..., CheckpointPolicy]


def policy_cases(seed: int) -> list[Case]:
    """GPT and Llama, fused and materialised attention, own and shared keys and values.

    Few different sizes, since measuring a case is slow and happens once.
    """
    rng = random.Random(seed)
    cases: list[Case] = []
    for number in range(5):
        for kind in KINDS:
            for attention in ATTENTIONS:
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
                        "ffn_size": rng.choice((31, 47)),
                    }
                )
    return cases


def _layer_and_input(
    kind: str, attention: str, num_sequences: int, seq_len: int, **sizes: Any
) -> tuple[Block, Tensor]:
    """A real layer of these sizes, and an input that requires a gradient."""
    is_gpt, width = kind == "GPT", sizes["num_heads"] * sizes["head_dim"]
    model = ModelConfig(
        num_layers=1,
        hidden_size=width,
        vocab_size=1,
        is_gated=not is_gpt,
        has_biases=is_gpt,
        num_positions=seq_len if is_gpt else 0,
        **sizes,
    )
    layer = Block(model, 0, kernels=Kernels(is_attention_fused=attention == "fused"))
    return layer, torch.ones(num_sequences, seq_len, width, requires_grad=True)


def _run_with(policy: Policy, layer: Block, x: Tensor) -> Tensor:
    contexts = partial(create_selective_checkpoint_contexts, policy)
    out: Tensor = torch_checkpoint(layer, x, use_reentrant=False, context_fn=contexts)
    return out


def kept_bytes(policy: Policy, case: Case) -> int:
    """Bytes alive between the passes: saved by autograd, and in the cache of the policy."""
    layer, x = _layer_and_input(**case)
    saved = count_saved_bytes(lambda: _run_with(policy, layer, x), layer)
    return saved.total_bytes + saved.unseen_bytes


def observe(answer: Any, case: Case) -> object:
    """Bytes that a layer keeps and FLOPs that it recomputes under the student's policy."""
    layer, x = _layer_and_input(**case)
    flops = count_flops(lambda: _run_with(answer, layer, x)).backward_flops
    return {
        "kept_bytes": kept_bytes(answer, case),
        "recomputed_flops": flops - _plain_flops(json.dumps(case)),
    }


@cache
def _plain_flops(case: str) -> int:
    layer, x = _layer_and_input(**json.loads(case))
    return count_flops(lambda: layer(x)).backward_flops


def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """The course's own answer."""
    return CheckpointPolicy.MUST_SAVE if op in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def wanted(**case: Any) -> dict[str, int]:
    """What a layer keeps under the course's policy, which recomputes no product."""
    return {"kept_bytes": kept_bytes(policy, case), "recomputed_flops": 0}


def _keeping(is_kept: Callable[[str], bool]) -> Callable[..., dict[str, int]]:
    """What is kept under a policy that decides by the name of the operation."""

    def wrong(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if is_kept(op.overloadpacket.__name__):
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    @cache
    def kept(case: str) -> int:
        return kept_bytes(wrong, json.loads(case))

    def formula(*values: Any) -> dict[str, int]:
        return {"kept_bytes": kept(json.dumps(dict(zip(NAMES, values, strict=True))))}

    return formula


NAMES = tuple(policy_cases(0)[0])
FUSED = "_scaled_dot_product_flash_attention_for_cpu"
NAMES_OF_PRODUCTS = frozenset(op.overloadpacket.__name__ for op in PRODUCTS)

CHECK = Check(
    cases=policy_cases,
    reference=policy,
    observe=observe,
    judge=EqualTo(
        wanted,
        Mistake(
            "Nothing is kept beside the input: no operation that comes by is one of yours, or your "
            "policy returns no CheckpointPolicy. What does `print(op)` show, and is that equal to "
            "what you compare it with?",
            _keeping(lambda name: False),
        ),
        Mistake(
            "Every result is kept. Which operations cost next to nothing to run again?",
            _keeping(lambda name: True),
        ),
        Mistake(
            "You keep what is cheap and run again what is dear. Which of the two policies belongs "
            "to a product?",
            _keeping(lambda name: name not in NAMES_OF_PRODUCTS),
        ),
        Mistake(
            "The products with a bias run again. By which name does a linear layer with a bias "
            "come by?",
            _keeping(lambda name: name in ("mm", "bmm", FUSED)),
        ),
        Mistake(
            "The products of many matrices at once run again. By which name do queries meet keys "
            "where attention is written out?",
            _keeping(lambda name: name in ("mm", "addmm", FUSED)),
        ),
        Mistake(
            "Fused attention runs again. Which name has it on a CPU?",
            _keeping(lambda name: name in ("mm", "addmm", "bmm")),
        ),
        Mistake(
            "Products with a bias run again, and products of many matrices at once. Which names in "
            "the exercise's text have you left out?",
            _keeping(lambda name: name in ("mm", FUSED)),
        ),
        Mistake(
            "More than products is kept. Which activation function do you save, and what does it "
            "cost to run again?",
            _keeping(lambda name: name in NAMES_OF_PRODUCTS | {"silu", "gelu"}),
        ),
        Mistake(
            "Only `mm` is kept. Which other names in the exercise's text are products?",
            _keeping(lambda name: name == "mm"),
        ),
        Mistake(
            "Only fused attention is kept. Where are most of a layer's FLOPs?",
            _keeping(lambda name: name == FUSED),
        ),
        together=True,
    ),
)
