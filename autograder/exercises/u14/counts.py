"""The checks of unit 14 on what is counted: conventions of utilisation, and a token's work."""

import functools
import json
import random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, named
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import declares_check
from autograder.exercises.model_sizes import preset_sizes
from course_utils.formulas.parameters import parameters
from course_utils.formulas.step_parts import token_forward_flops
from course_utils.instruments import count_flops
from course_utils.reference import Block
from course_utils.reference.layers import attend

# === for several exercises
# Small models, and what is counted while they run.


LLAMA_1B = preset_sizes("Llama-3.2-1B") | {"is_tied": True}


def small_llama(rng: random.Random, **fixed: int) -> dict[str, Any]:
    """Sizes of a Llama; some heads share their keys and values."""
    kv_heads, group = rng.choice((1, 2, 3)), rng.choice((1, 2, 4))
    model = {
        "num_layers": rng.randint(2, 6),
        "hidden_size": 8 * kv_heads * group * rng.randint(1, 3),
        "num_heads": kv_heads * group,
        "num_kv_heads": kv_heads,
        "ffn_size": rng.randrange(20, 199, 2),
        "vocab_size": rng.randrange(100, 999, 2),
        "is_tied": rng.random() < 1 / 2,
    }
    return model | fixed


def counted_forward(model: dict[str, Any], seq_len: int) -> dict[str, int]:
    """FLOPs of one token's forward pass, counted while a layer and the head run.

    Returns:
        ``whole``, and ``attention`` of it.
    """
    return dict(_counted_forward(json.dumps(model), seq_len))


@functools.cache
def _counted_forward(model: str, seq_len: int) -> dict[str, int]:
    sizes = model_of(json.loads(model))
    block = Block(sizes, 0, device="meta")
    head = nn.Linear(sizes.hidden_size, sizes.vocab_size, bias=False, device="meta")
    x = torch.empty(1, seq_len, sizes.hidden_size, device="meta")
    q, kv = (
        torch.empty(1, seq_len, heads, sizes.head_dim, device="meta")
        for heads in (sizes.num_heads, sizes.num_kv_heads)
    )
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        of_block, of_head, of_core = (
            count_flops(call).forward_flops
            for call in (lambda: block(x), lambda: head(x), lambda: attend(q, kv, kv))
        )
    return {
        "whole": (sizes.num_layers * of_block + of_head) // seq_len,
        "attention": sizes.num_layers * of_core // seq_len,
    }


# === u14-convention
# A printed utilisation under another convention.


CONVENTIONS = ("6N", "6N + attention", "with recomputation", "lecture")
CONVENTION_SMALL = {
    "num_layers": 2,
    "hidden_size": 8,
    "num_heads": 2,
    "num_kv_heads": 1,
    "ffn_size": 20,
    "vocab_size": 50,
    "is_tied": True,
}


def convention_cases(seed: int) -> list[Case]:
    """Every convention; tied and untied heads, gated and not, one layer, shared keys; Llama 1B."""
    rng = random.Random(seed)
    runs = [(CONVENTION_SMALL, 12, 50.0, "6N + attention")]
    for number in range(20):
        fixed: dict[str, int] = {"is_tied": number % 2 == 0, "is_gated": number % 3 != 1}
        if number in (3, 7):
            fixed["num_layers"] = 1
        if number % 5 == 0:
            fixed |= {"num_heads": 4, "num_kv_heads": 2, "hidden_size": 32}
        model = small_llama(rng, **fixed)
        percent = rng.randint(200, 700) / 10
        runs.append((model, rng.randint(10, 90), percent, CONVENTIONS[number // 2 % 4]))
    runs += [(LLAMA_1B, 4096, rng.randint(300, 700) / 10, each) for each in CONVENTIONS]
    names = ("model", "num_params", "seq_len", "percent", "convention")
    return [named(names, (model, _num_parameters(model), *others)) for model, *others in runs]


def _num_parameters(model: dict[str, int]) -> int:
    return sum(parameters(model_of(model)).values())


@declares_check(
    "u14-convention",
    convention_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.utilisation.causal_percent",
)
def measured_convention(
    model: dict[str, int], num_params: int, seq_len: int, percent: float, convention: str
) -> float:
    """FLOPs counted while the model runs, over those of the convention."""
    forward = counted_forward(model, seq_len)
    head = 2 * model["vocab_size"] * model["hidden_size"]
    six_n_and_core = 6 * num_params + 3 * forward["attention"]
    theirs = {
        "6N": 6 * num_params,
        "6N + attention": six_n_and_core,
        "with recomputation": six_n_and_core + six_n_and_core / 3,
        # As printed, the lecture's formula has the vocabulary once in each layer.
        "lecture": 3 * (forward["whole"] + (model["num_layers"] - 1) * head),
    }[convention]
    # Training costs three forward passes, and a causal mask leaves half of the attention.
    ours = 3 * forward["whole"] - 1.5 * forward["attention"]
    return percent * ours / theirs


# === u14-work
# A token's work by kind: pass by pass, and kernels on meta tensors.


WORK_SMALL = {
    "num_layers": 1,
    "hidden_size": 4,
    "num_heads": 1,
    "ffn_size": 10,
    "vocab_size": 20,
    "is_gated": False,
}
LENGTH = 8


def work_cases(seed: int) -> list[Case]:
    """Gated and not, layers that run again and that do not, one layer, a real model."""
    rng = random.Random(seed)
    runs = [(WORK_SMALL, LENGTH, False)]
    for number in range(20):
        fixed: dict[str, int] = {"is_gated": number % 2 == 0}
        if number in (4, 5):
            fixed["num_layers"] = 1
        runs.append((small_llama(rng, **fixed), 4 * rng.randint(2, 20), number % 4 < 2))
    runs += [(LLAMA_1B, 64 * rng.randint(16, 96), each) for each in (False, True)]
    return [
        {
            "model": model,
            "forward": token_forward_flops(model_of(model), seq_len),
            "is_recomputed": again,
        }
        for model, seq_len, again in runs
    ]


class Kernels:
    """Counts what kernels read and write; each tensor once."""

    def __init__(self) -> None:
        """Nothing has run."""
        self.num_bytes = 0

    def run(self, reads: list[Tensor], writes: list[Tensor]) -> None:
        """One kernel."""
        self.num_bytes += sum(each.numel() * each.element_size() for each in (*reads, *writes))


def vector(size: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """What a token has between two kernels."""
    return torch.empty(size, dtype=dtype, device="meta")


def layer_kernels(model: dict[str, Any]) -> int:
    """Bytes of one token in the forward pass of one layer."""
    sizes, kernels = model_of(model), Kernels()
    stream, inner = vector(sizes.hidden_size), vector(sizes.ffn_size)
    for _ in ("attention", "feed-forward"):
        kernels.run([stream], [stream])  # norm
        kernels.run([stream, stream], [stream])  # the block's result joins the residual
    kernels.run([inner, inner] if sizes.is_gated else [inner], [inner])
    return kernels.num_bytes


@declares_check(
    "u14-work",
    work_cases,
    labels={
        "products": "FLOPs of products",
        "attention": "FLOPs of attention",
        "elementwise": "bytes of all other kernels",
    },
    fallback="course_utils.formulas.step_parts.token_work",
)
def measured_work(
    model: dict[str, Any], forward: dict[str, int], is_recomputed: bool
) -> dict[str, int]:
    """Every pass by itself: forward, backward, and forward again."""
    again = [1] if is_recomputed else []
    # Backward of fused attention has five products where forward has two. Below, attention is
    # halved since it is causal.
    attention_passes, kernel_passes = [1, 2.5, *again], [1, 2, *again]
    linear = forward["projections"] + forward["feed_forward"]
    loss = Kernels()
    for _ in ("logits", "log-probabilities", "gradient"):
        tensor = vector(model["vocab_size"], torch.float32)
        loss.run([], [tensor])
        loss.run([tensor], [])
    once = model["num_layers"] * layer_kernels(model)
    return {
        "products": sum(each * linear for each in kernel_passes) + 3 * forward["head"],
        "attention": int(sum(each * forward["attention"] / 2 for each in attention_passes)),
        "elementwise": sum(each * once for each in kernel_passes) + loss.num_bytes,
    }
