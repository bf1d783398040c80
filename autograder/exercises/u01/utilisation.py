"""Check of one run's MFU under four conventions."""

import random
from dataclasses import replace
from typing import Any

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u01.shared.counts import (
    COUNTERS,
    LLAMA_1B,
    counted_core,
    counted_model,
    hidden_size_for_width,
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


RATE, CAUSAL, SIX_N_AND_CORE = "tokens_per_second / hardware", "core / 2", "(6 * num_params + core)"
EMBEDDING = "model.vocab_size * model.hidden_size"
WIDE_CORE = "num_layers * width"
ADDED_ONCE = {SIX_N_AND_CORE: "(6 * num_params + core / 3)"}
ONE_PASS = (
    "Somewhere you count only the core's forward pass. Which passes does the rest of your sum "
    "count?"
)
HALF = (
    "All four are half. Do you divide by the sparse peak, or count a multiply and an add as one "
    "operation?"
)
EDITS = (
    Edit(HALF, {"hardware.dense": "hardware.sparse"}),
    Edit(HALF, {RATE: "tokens_per_second / 2 / hardware"}),
    Edit(
        "You divide by the peak of tf32. In which precision does the run multiply?",
        {"bf16": "tf32"},
    ),
    Edit(
        "Those are the FLOPs of inference. How many times as many does training take?",
        {RATE: "tokens_per_second / 3 / hardware"},
    ),
    Edit(
        "Those are percentages. What is the largest value of a share?",
        {RATE: "100 * tokens_per_second / hardware"},
    ),
    Edit(
        "You halve everything for the causal mask. Which part of the FLOPs does the mask touch?",
        {"(rest + core / 2)": "(rest + core) / 2"},
        points=1.5,
    ),
    Edit(
        "You count the diagonal in full. What share of the core does the exercise ask for?",
        {CAUSAL: "core * (seq_len + 1) / (2 * seq_len)"},
        points=1.5,
    ),
    Edit(
        "Your N is only the parameters that multiply. Which parameters does this convention count?",
        {'"six_n": 6 * num_params': '"six_n": rest', SIX_N_AND_CORE: "(rest + core)"},
        points=1.0,
    ),
    *(
        Edit(
            "Your N leaves the embedding out. Which parameters does this convention count?",
            {
                '"six_n": 6 * num_params': f'"six_n": 6 * (num_params - {embedding})',
                SIX_N_AND_CORE: f"(6 * (num_params - {embedding}) + core)",
            },
            points=1.0,
        )
        for embedding in (EMBEDDING, f"{EMBEDDING} * (not model.is_tied)")
    ),
    Edit(
        "Your causal count has no attention core at all. What share of the square does a mask "
        "hide?",
        {CAUSAL: "0"},
        points=1.5,
    ),
    Edit(
        "You add half of the core to 6N. How much of it does that convention add?",
        {SIX_N_AND_CORE: "(6 * num_params + core / 2)"},
        points=1.5,
    ),
    Edit(
        "Your core for one token grows with the square of the length. How many tokens does one "
        "token meet?",
        {"width * seq_len": "width * seq_len**2"},
        points=0.5,
    ),
    Edit(ONE_PASS, {"core = 12": "core = 4"}, points=0.5),
    Edit(ONE_PASS, ADDED_ONCE, points=1.5),
    *(
        Edit(ONE_PASS, {CAUSAL: left, **others}, points=1.5 - 0.5 * len(others))
        for left in ("core - core / 6", "core / 6")
        for others in ({}, ADDED_ONCE)
    ),
    *(
        replace(edit, points=0.5 if WIDE_CORE in edit.pieces else 1.0)
        for edit in hidden_size_for_width({WIDE_CORE: "num_layers * model.hidden_size"})
    ),
)

CHECK = Check(
    cases=utilisation_cases,
    judge=EqualTo(
        measured_utilisation,
        *edited("u01-utilisation", EDITS),
        relative_tolerance=PROMISED,
    ),
    fallback="course_utils.formulas.utilisation.utilisation_by_convention",
    answers=COUNTERS,
)
