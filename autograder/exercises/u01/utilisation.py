"""Check of one run's MFU under four conventions."""

import random
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    LLAMA_1B,
    counted_core,
    counted_model,
    model_cases,
    models_to_vary,
    one_at_a_time,
    with_own_head_dim,
)
from course_utils.configs import DEVICES, device
from course_utils.formulas.parameters import parameters
from course_utils.reference import Transformer


def utilisation_cases(seed: int) -> list[Case]:
    """Every device; tied and untied heads; all kinds and widths of heads; a real model."""
    rng = random.Random(seed)
    worked, *others = model_cases(seed)[:19]
    cases = [_run(worked["model"], worked["seq_len"], 10**10, "A100-80")]
    for n, case in enumerate(others[::2]):
        own = with_own_head_dim(case["model"], is_wider=n % 4 == 1)
        model = own if n % 2 else case["model"]
        rate, hardware = rng.randint(10_000, 60_000), list(DEVICES)[n % len(DEVICES)]
        cases.append(_run(model, case["seq_len"], rate, hardware))
    start, end = (model | {"is_tied": True, "head_dim": 8} for model in models_to_vary(rng))
    end |= {"head_dim": 10, "is_tied": False}
    fast, slow = _run(start, 9, 10**6, "A100-80"), _run(end, 7, 1, "H100-SXM")
    llama = _run(LLAMA_1B | {"is_tied": True}, 4096, rng.randint(10_000, 60_000), "H100-SXM")
    return [*map(_with_its_parameters, [*cases, *one_at_a_time(fast, slow), llama])]


def _run(model: dict[str, Any], seq_len: int, tokens_per_second: int, hardware: str) -> Case:
    return {
        **{"model": model, "num_params": 0, "seq_len": seq_len},
        **{"tokens_per_second": tokens_per_second, "hardware": hardware},
    }


def _with_its_parameters(case: Case) -> Case:
    return case | {"num_params": sum(parameters(model_of(case["model"])).values())}


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


CHECK = Check(
    cases=utilisation_cases,
    judge=EqualTo(
        measured_utilisation,
        *mistakes_of("u01-utilisation"),
        relative_tolerance=PROMISED,
    ),
    fallback="course_utils.formulas.utilisation.utilisation_by_convention",
    answers=COUNTERS,
)
