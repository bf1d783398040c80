"""Check of a plan's bytes, against padded shards, meta tensors and a simulated pipeline."""

import random
from typing import Any

import torch
from torch.nn.functional import log_softmax

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u14.shared.models import LLAMA_1B
from course_utils.configs import precision
from course_utils.formulas.plan import model_sizes
from course_utils.instruments import simulate_pipeline
from course_utils.reference.pipeline_schedules import one_forward_one_backward

BF16 = precision("bf16")
SMALL = {
    **{"num_layers": 2, "hidden_size": 8, "num_heads": 2, "num_kv_heads": 1},
    **{"ffn_size": 16, "vocab_size": 10, "is_tied": True},
}


def plan_cases(seed: int) -> list[Case]:
    """Every stage of sharding, with replicas and without; few and many micro-batches; all cuts."""
    rng = random.Random(seed)
    runs = [(SMALL, 8, 4, _plan(2, 1, 1, 1, 1, False))]
    for number in range(20):
        tensor, pipeline = rng.choice((1, 2, 4)), (1, 2, 3, 4)[number % 4]
        data = 1 if number % 6 == 5 else rng.choice((2, 3, 4, 7))
        stage = 3 if number == 11 else number // 2 % 4
        micro_batch = rng.randint(1, 4)
        kv_heads, group = 4, rng.choice((1, 2))
        model = {
            "num_layers": pipeline * rng.randint(1, 3),
            "hidden_size": 8 * kv_heads * group,
            "num_heads": kv_heads * group,
            "num_kv_heads": kv_heads,
            "ffn_size": 4 * rng.randint(9, 40),
            "vocab_size": 4 * rng.randint(20, 200),
            "is_tied": rng.random() < 1 / 2,
        }
        passes = rng.randint(1, 2) if number % 3 else rng.randint(pipeline, 9)
        plan = _plan(data, tensor, pipeline, stage, micro_batch, number % 3 == 1)
        runs.append((model, 8 * rng.randint(1, 8), data * micro_batch * passes, plan))
    for stage in (0, 3):
        runs.append((LLAMA_1B, 64 * rng.randint(16, 96), 256, _plan(4, 1, 1, stage, 4, False)))
    return [
        {
            "model": model,
            "sizes": model_sizes(model_of(model), seq_len),
            "seq_len": seq_len,
            "num_sequences": sequences,
            "plan": plan,
        }
        for model, seq_len, sequences, plan in runs
    ]


def _plan(*numbers: int) -> dict[str, Any]:
    names = ("data", "tensor", "pipeline", "zero_stage", "micro_batch", "is_recomputed")
    return dict(zip(names, numbers, strict=True))


def measured(
    model: dict[str, Any],
    sizes: dict[str, int],
    seq_len: int,
    num_sequences: int,
    plan: dict[str, Any],
) -> dict[str, int]:
    """Storages of a rank's shards, what the first stage holds, and the tensors of a loss."""
    d, t, p, b = (plan[name] for name in ("data", "tensor", "pipeline", "micro_batch"))
    passes = num_sequences // (d * b)
    run = simulate_pipeline(one_forward_one_backward(p, passes), passes).require_complete()
    cut = {"seq_len": seq_len, "batch": b, "ranks": t}
    kept = b * sizes["layer_bytes"] // t
    boundary = _bytes_of(model["hidden_size"], torch.bfloat16, **cut)
    held = int(run.in_flight(0)) * model["num_layers"] // p
    gathered = 2 * sizes["layer_parameters"] * BF16.weight_bytes // t
    return {
        "state": _state_bytes(sizes["parameters"], t * p, d, plan["zero_stage"]),
        "gathered": gathered if plan["zero_stage"] == 3 and d > 1 else 0,
        "layers": held * boundary + kept if plan["is_recomputed"] else held * kept,
        "loss": _loss_bytes(model["vocab_size"], **cut),
    }


def _state_bytes(num_params: int, cuts: int, replicas: int, stage: int) -> int:
    """Padded until it can be cut, as one flat tensor is."""
    own = num_params
    while own % cuts:
        own += 1
    own //= cuts
    shard = own
    while shard % replicas:
        shard += 1
    shard //= replicas
    optimizer = BF16.master_weight_bytes + BF16.moment_bytes
    sizes = {3: BF16.weight_bytes, 2: BF16.gradient_bytes, 1: optimizer}
    return sum(each * (shard if stage >= first else own) for first, each in sizes.items())


def _bytes_of(width: int, dtype: torch.dtype, seq_len: int, batch: int, ranks: int) -> int:
    whole = torch.empty(batch, seq_len, width, dtype=dtype, device="meta")
    return whole.numel() * whole.element_size() // ranks


def _loss_bytes(vocab_size: int, **cut: int) -> int:
    """Logits as the head gives them, and in fp32 their log-probabilities and gradient."""
    logits = torch.empty(1, vocab_size, dtype=torch.bfloat16, device="meta")
    log_probabilities = log_softmax(logits.float(), dim=-1)
    gradient = torch.empty_like(log_probabilities)
    tensors = (logits, log_probabilities, gradient)
    return sum(_bytes_of(vocab_size, each.dtype, **cut) for each in tensors)


CHECK = Check(
    cases=plan_cases,
    judge=EqualTo(
        measured,
        *mistakes_of("u14-fits"),
        labels={
            "state": "bytes of the state",
            "gathered": "bytes of gathered weights",
            "layers": "bytes of the layers' activations",
            "loss": "bytes of the loss",
        },
        questions=questions_of("u14-fits"),
    ),
    fallback="course_utils.formulas.plan.plan_bytes",
)
