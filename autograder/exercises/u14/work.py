"""Check of a token's work by kind: pass by pass, and kernels on meta tensors."""

import random
from typing import Any

import torch
from torch import Tensor

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u14.shared.models import LLAMA_1B, small_llama
from course_utils.formulas.step_parts import token_forward_flops

SMALL = {
    **{"num_layers": 1, "hidden_size": 4, "num_heads": 1, "ffn_size": 10, "vocab_size": 20},
    **{"is_gated": False},
}
LENGTH = 8


def work_cases(seed: int) -> list[Case]:
    """Gated and not, layers that run again and that do not, one layer, a real model."""
    rng = random.Random(seed)
    runs = [(SMALL, LENGTH, False)]
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


def measured(model: dict[str, Any], forward: dict[str, int], is_recomputed: bool) -> dict[str, int]:
    """Every pass by itself: forward, backward, and forward again."""
    attention_passes = [1, 2.5] + [1] * is_recomputed
    kernel_passes = [1, 2] + [1] * is_recomputed
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


CHECK = Check(
    cases=work_cases,
    judge=EqualTo(
        measured,
        *mistakes_of("u14-work"),
        labels={
            "products": "FLOPs of products",
            "attention": "FLOPs of attention",
            "elementwise": "bytes of all other kernels",
        },
        questions=questions_of("u14-work"),
    ),
    fallback="course_utils.formulas.step_parts.token_work",
)
