"""Check of one run's MFU under four conventions."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import NINE_DIGITS, EqualTo, Mistake
from autograder.exercises.u01.shared.counts import (
    LLAMA_1B,
    counted_core,
    counted_model,
    model_cases,
)
from course_utils.configs import DEVICES, Device, ModelConfig, device
from course_utils.formulas import flops
from course_utils.formulas.parameters import parameters
from course_utils.reference import Transformer

Counts = Mapping[str, float]

Change = Callable[[dict[str, int], int, int], Counts]
"""Other FLOPs per token, from the right ones, those of the core, and the sequence length."""


def utilisation_cases(seed: int) -> list[Case]:
    """Every device; tied and untied heads; multi-head and grouped-query attention; a real model."""
    rng = random.Random(seed)
    models = [(case["model"], case["seq_len"]) for case in model_cases(seed)[:19]]
    models += [(LLAMA_1B | {"is_tied": True}, 4096)] * 2
    cases: list[Case] = [
        {
            "model": model,
            "num_params": sum(parameters(model_of(model)).values()),
            "seq_len": seq_len,
            "tokens_per_second": rng.randint(10_000, 60_000),
            "hardware": list(DEVICES)[n % len(DEVICES)],
        }
        for n, (model, seq_len) in enumerate(models)
    ]
    cases[0] |= {"tokens_per_second": 10**10, "hardware": "A100-80"}  # the worked case
    return cases


def measured_utilisation(
    model: dict[str, Any], num_params: int, seq_len: int, tokens_per_second: int, hardware: str
) -> dict[str, float]:
    """FLOPs per token counted while model and core run; parameters counted tensor by tensor."""
    counted = sum(counted_model(model, 1, seq_len)) // seq_len
    sizes = model_of(model)
    core = 3 * sizes.num_layers * counted_core(sizes, seq_len) // seq_len
    built = sum(weight.numel() for weight in Transformer(sizes, device="meta").parameters())
    if built != num_params:
        raise RuntimeError(f"the model has {built:,} parameters; the case says {num_params:,}")
    flops_per_token = {
        "counted": counted,
        "causal": counted - core // 2,
        "six_n": 6 * built,
        "six_n_and_attention": 6 * built + core,
    }
    peak = device(hardware).dense_flops_per_second("bf16")
    return {name: each * tokens_per_second / peak for name, each in flops_per_token.items()}


def utilisation(
    model: ModelConfig, num_params: int, seq_len: int, tokens_per_second: int, hardware: Device
) -> dict[str, float]:
    """The course's own answer: four counts of FLOPs per token, over the dense peak."""
    peak = hardware.dense_flops_per_second("bf16")
    counts = _counts(model, num_params, seq_len)
    return {name: count * tokens_per_second / peak for name, count in counts.items()}


def _counts(model: ModelConfig, num_params: int, seq_len: int) -> dict[str, int]:
    parts = flops.forward_flops(model, 1, seq_len)
    core = 3 * parts["attention"] // seq_len
    counted = 3 * sum(parts.values()) // seq_len
    return {
        "counted": counted,
        "causal": counted - core // 2,
        "six_n": 6 * num_params,
        "six_n_and_attention": 6 * num_params + core,
    }


def _instead(
    change: Change,
    peak: Callable[[Device], int] = lambda hardware: hardware.dense_flops_per_second("bf16"),
) -> Callable[..., Counts]:
    """The fractions with other FLOPs per token, or over another peak."""

    def formula(
        model: dict[str, Any], num_params: int, seq_len: int, rate: int, hardware: str
    ) -> Counts:
        counts = _counts(model_of(model), num_params, seq_len)
        core = counts["six_n_and_attention"] - counts["six_n"]
        of_peak = rate / peak(device(hardware))
        return {name: each * of_peak for name, each in change(counts, core, seq_len).items()}

    return formula


def _scaled(factor: float) -> Change:
    return lambda counts, core, seq_len: {name: factor * count for name, count in counts.items()}


CHECK = Check(
    cases=utilisation_cases,
    reference=utilisation,
    judge=EqualTo(
        measured_utilisation,
        Mistake(
            "Half of each. Is it your peak or your count: does the device's rate assume zeros in "
            "the weights, and how many operations is a multiply-and-add?",
            _instead(_scaled(1), lambda hardware: hardware.sparse_flops_per_second("bf16")),
        ),
        Mistake(
            "You divide by the peak of tf32. In which precision does the run multiply?",
            _instead(_scaled(1), lambda hardware: hardware.dense_flops_per_second("tf32")),
        ),
        Mistake(
            "Those are the FLOPs of inference. How many passes of that size has training?",
            _instead(_scaled(1 / 3)),
        ),
        Mistake(
            "Those are percentages. What is the largest value of a share?",
            _instead(_scaled(100)),
        ),
        Mistake(
            "You halve everything for the causal mask. Which part of the FLOPs does it hide?",
            _instead(lambda counts, core, seq_len: {"causal": counts["counted"] / 2}),
        ),
        Mistake(
            "You count the diagonal of the square too, which the mask leaves. Which share of the "
            "core does the exercise take?",
            _instead(
                lambda counts, core, seq_len: {
                    "causal": counts["counted"] - core + core * (seq_len + 1) / (2 * seq_len)
                }
            ),
        ),
        Mistake(
            "You take 6 for each parameter that multiplies. Which N does this convention take?",
            _instead(
                lambda counts, core, seq_len: {
                    "six_n": counts["counted"] - core,
                    "six_n_and_attention": counts["counted"],
                }
            ),
        ),
        Mistake(
            "Your causal count has no attention core left. What share of the square do you let "
            "the mask hide?",
            _instead(lambda counts, core, seq_len: {"causal": counts["counted"] - core}),
        ),
        Mistake(
            "You add the causal half to 6N. Which attention does that convention add?",
            _instead(
                lambda counts, core, seq_len: {"six_n_and_attention": counts["six_n"] + core / 2}
            ),
        ),
        Mistake(
            "You add attention's forward pass alone. Which passes does 6N count?",
            _instead(
                lambda counts, core, seq_len: {"six_n_and_attention": counts["six_n"] + core / 3}
            ),
        ),
        relative_tolerance=NINE_DIGITS,
    ),
)
