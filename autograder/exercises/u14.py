"""The checks of unit 14: which configuration?"""

import functools
import json
import random
from copy import deepcopy
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import log_softmax

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, named
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import check
from autograder.exercises.model_sizes import preset_sizes
from autograder.observers.u14 import plan as plan_observer
from course_utils.configs import LAST_STAGE, Costs, Machine, machine_of, precision
from course_utils.formulas.best_plan import plans
from course_utils.formulas.parameters import parameters
from course_utils.formulas.plan import Task, model_sizes
from course_utils.formulas.step_parts import token_forward_flops
from course_utils.instruments import PassSeconds, count_flops, simulate_pipeline
from course_utils.reference import Block
from course_utils.reference.layers import attend
from course_utils.reference.pipeline_schedules import one_forward_one_backward

# === for several exercises
# Small models, and what is counted while they run.


LLAMA_1B = preset_sizes("Llama-3.2-1B") | {"is_tied": True}
LLAMA_8B = preset_sizes("Llama-3-8B")


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


@check(
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


@check(
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


# === u14-calibrate
# Two calibrated constants, against a descent that goes down one constant at a time.


DIGITS = 1e-6
NUM_TURNS = 400
LARGE, CALIBRATE_SMALL = (0.6, 1), (0.1, 0.4)  # so that rows tell the two kinds of work apart
CALIBRATE_NAMES = ("attention", "elementwise")


def calibration_cases(seed: int) -> list[Case]:
    """Rows that agree and that do not, times of any size; best constants above and below zero."""
    rng = random.Random(seed)
    cases: list[Case] = [{"rows": [[1.0, 1.0, 0.0, 3.0], [1.0, 0.0, 1.0, 4.0]]}]
    for number in range(21):
        signs = ((1, 1), (1, 1), (-1, 1), (1, -1))[number % 4]
        true = [rng.uniform(0.5, 3) if sign > 0 else -rng.uniform(0.8, 2) for sign in signs]
        noise = 0.0 if number % 8 == 1 else 0.03
        rows = []
        for place in range(rng.randint(4, 8)):
            size = 10 ** rng.uniform(-1, 1)
            shares = (LARGE, CALIBRATE_SMALL) if place % 2 else (CALIBRATE_SMALL, LARGE)
            first, second = (size * rng.uniform(*each) for each in shares)
            fixed = size * rng.uniform(3, 5)
            ideal = fixed + true[0] * first + true[1] * second
            rows.append([fixed, first, second, ideal * rng.uniform(1 - noise, 1 + noise)])
        cases.append({"rows": rows})
    return cases


@check(
    "u14-calibrate",
    calibration_cases,
    relative_tolerance=DIGITS,
    fallback="course_utils.formulas.calibration.calibrate",
)
def descended(rows: list[list[float]]) -> dict[str, float]:
    """The smallest sum of squared relative errors, one constant after the other, many times."""
    relative = [[each / row[3] for each in row[:3]] for row in rows]
    constants = [0.0, 0.0]
    for turn in range(NUM_TURNS):
        own = turn % 2
        other = 1 - own
        left = [1 - row[0] - constants[other] * row[1 + other] for row in relative]
        along = sum(each * row[1 + own] for each, row in zip(left, relative, strict=True))
        # Where the derivative by this constant is zero; a negative constant becomes zero.
        constants[own] = max(0.0, along / sum(row[1 + own] ** 2 for row in relative))
    return named(CALIBRATE_NAMES, constants)


# === u14-plan
# The fastest plan that fits, on machines that nobody has seen, by trying all plans.


SCENARIOS = tuple(plan_observer.ALLOWED_PERCENT)


MACHINES = ("A100-80", "A100-40")
FAST, SLOW = (150, 235, 450), (5, 10, 20)  # GB/s
ODD_SHARES = (2, 5)  # new cases with 12 sequences: four devices divide them, eight do not
UNCUT = {"num_kv_heads": 1}  # and a prime number of layers: replicas are all that is left
PRIMES = (17, 19, 23)


def task_cases(seed: int) -> list[Case]:
    """The practice problem and two nodes, new ones of any size, four on the edge of memory."""
    rng = random.Random(seed)
    cases = [_with_less(case, rng.randint(1, 10**9)) for case in _known_cases()]
    cases += [_new_case(rng, number) for number in range(7)]
    cases += [_stage_or_recomputation(rng), _stage_and_micro_batch(rng)]
    cases += [_just_fits(rng), _just_too_large(rng)]
    every = [deepcopy(case) | {"scenario": scenario} for case in cases for scenario in SCENARIOS]
    return [deepcopy(_known_cases()[0]) | {"scenario": SCENARIOS[0]}, *every[1:]]


def _with_less(case: Case, num_bytes: int) -> Case:
    """The same task with less memory."""
    memory_bytes = case["machine"]["memory_bytes"] - num_bytes
    return case | {"machine": case["machine"] | {"memory_bytes": memory_bytes}}


@functools.cache
def _known_cases() -> tuple[Case, ...]:
    """Made once, as they are the same for every seed."""
    tasks = [Task(model_of(LLAMA_1B), 4096, 32, machine_of("A100-80", 4))]
    tasks += [Task(model_of(LLAMA_8B), 8192, 16, machine_of(name, 8)) for name in MACHINES]
    return tuple(_case(task, _costs(task), task.machine.memory_bytes) for task in tasks)


def _new_case(rng: random.Random, number: int) -> Case:
    """Fast links and slow ones; memory for some of the plans."""
    model = LLAMA_8B if number % 2 else LLAMA_1B
    layers = rng.choice((12, 16, 24, 32))
    sizes = model_of(model | {"num_layers": layers, "num_kv_heads": rng.choice((2, 4, 8))})
    link = rng.choice(SLOW if number % 3 == 0 else FAST) * 10**9
    devices = 8 if number % 4 == 1 else 4
    machine = replace(machine_of("H100-SXM", devices), link_bytes_per_second=link)
    sequences = 12 if number in ODD_SHARES else rng.choice((8, 16))
    task = Task(sizes, rng.choice((2048, 4096)), sequences, machine)
    costs = _costs(task)
    needed = sorted(row[0] for row in costs.values())
    return _case(task, costs, int(needed[int(len(needed) * rng.uniform(0.3, 0.6))]))


def _stage_or_recomputation(rng: random.Random) -> Case:
    """Without stage 3 layers must run again, which takes longer than gathering over fast links."""
    name, link = rng.choice((*MACHINES, "H100-SXM")), rng.choice(FAST[1:])
    task = _uncut_task(rng, name, 8192, link)
    return _case(task, _costs(task), _least_bytes(task, is_recomputed=False) - 1)


def _stage_and_micro_batch(rng: random.Random) -> Case:
    """Only stage 3 fits, and each micro-batch gathers all weights over slow links."""
    task = _uncut_task(rng, rng.choice(MACHINES), 64, rng.choice(SLOW))
    return _case(task, _costs(task), _least_bytes(task, is_recomputed=True) - 1)


def _just_fits(rng: random.Random) -> Case:
    """The fastest plan fits to the byte; with less memory layers must run again."""
    task = _uncut_task(rng, rng.choice(MACHINES), 8192, rng.choice(SLOW))
    return _case(task, _costs(task), _least_bytes(task, is_recomputed=False))


def _just_too_large(rng: random.Random) -> Case:
    """The same, but for one byte; others need more and are as fast."""
    case = _just_fits(rng)
    case["machine"]["memory_bytes"] -= 1
    return case


def _uncut_task(rng: random.Random, name: str, seq_len: int, link: int) -> Task:
    """Eight devices and a model that neither tensor ranks nor stages can cut."""
    sizes = model_of(LLAMA_1B | UNCUT | {"num_layers": rng.choice(PRIMES)})
    machine = replace(machine_of(name, 8), link_bytes_per_second=link * 10**9)
    return Task(sizes, seq_len, 128, machine)


def _least_bytes(task: Task, *, is_recomputed: bool) -> int:
    """What the smallest plan below stage 3 takes."""
    every = plans(task.model, task.num_sequences, task.machine)
    return min(
        task.bytes_of(each)
        for each in every
        if each.zero_stage < LAST_STAGE and each.is_recomputed == is_recomputed
    )


def _case(task: Task, costs: dict[str, list[float]], memory_bytes: int) -> Case:
    return {
        "model": {name: each for name, each in vars(task.model).items() if each is not None},
        "num_sequences": task.num_sequences,
        "machine": asdict(replace(task.machine, memory_bytes=memory_bytes)),
        "costs": costs,
    }


def _costs(task: Task) -> dict[str, list[float]]:
    """Bytes and seconds of every plan there is."""
    every = plans(task.model, task.num_sequences, task.machine)
    return {
        Costs.key(each): [task.bytes_of(each), round(task.seconds_of(each), 6)] for each in every
    }


@check(
    "u14-plan",
    task_cases,
    observer=plan_observer,
    scenarios=SCENARIOS,
    fallback="course_utils.formulas.best_plan.best_plan",
    give_away=("course_utils.formulas.best_plan",),
)
def tried(
    model: dict[str, Any],
    num_sequences: int,
    machine: dict[str, Any],
    costs: dict[str, list[float]],
    scenario: str,
) -> dict[str, Any]:
    """The best of the whole table."""
    memory = Machine(**machine).memory_bytes
    best = min(seconds for num_bytes, seconds in costs.values() if num_bytes <= memory)
    return {"best": {"seconds": best}}


# === u14-fits
# A plan's bytes, against padded shards, meta tensors and a simulated pipeline.


BF16 = precision("bf16")
FITS_SMALL = {
    "num_layers": 2,
    "hidden_size": 8,
    "num_heads": 2,
    "num_kv_heads": 1,
    "ffn_size": 16,
    "vocab_size": 10,
    "is_tied": True,
}


def plan_cases(seed: int) -> list[Case]:
    """Every stage of sharding, with replicas and without; few and many micro-batches; all cuts."""
    rng = random.Random(seed)
    runs = [(FITS_SMALL, 8, 4, _plan(2, 1, 1, 1, 1, False))]
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
    return named(names, numbers)


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
    # By the first ZeRO stage in which the replicas share it.
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


@check(
    "u14-fits",
    plan_cases,
    labels={
        "state": "bytes of the state",
        "gathered": "bytes of gathered weights",
        "layers": "bytes of the layers' activations",
        "loss": "bytes of the loss",
    },
    fallback="course_utils.formulas.plan.plan_bytes",
)
def measured_fits(
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
    # The first stage has the most micro-batches in flight. If layers run again, it keeps their
    # inputs and all of the one layer that runs. Two layers are gathered: one is on its way.
    held = int(run.in_flight(0)) * model["num_layers"] // p
    gathered = 2 * sizes["layer_parameters"] * BF16.weight_bytes // t
    return {
        "state": _state_bytes(sizes["parameters"], t * p, d, plan["zero_stage"]),
        "gathered": gathered if plan["zero_stage"] == 3 and d > 1 else 0,
        "layers": held * boundary + kept if plan["is_recomputed"] else held * kept,
        "loss": _loss_bytes(model["vocab_size"], **cut),
    }


# === u14-exposed
# A step's seconds, against a simulated pipeline and a link that takes layer by layer.


EXPOSED_NAMES = (
    "num_micro_batches",
    "num_stages",
    "num_layers",
    "forward_seconds",
    "reduce_seconds",
)


def step_cases(seed: int) -> list[Case]:
    """Sums that hide and that do not; one layer, one stage, one micro-batch, nothing to sum."""
    rng = random.Random(seed)
    few, several = rng.randint(2, 6), rng.randint(4, 12)
    sizes = [(8, 4, 4, 6, 4), (8, 4, 4, 6, 40 + few), (several, 1, 1, 5, 8)]
    sizes += [(1, 1, several, 4, 3), (several, 1, 8, few, 0)]
    sizes += [(1, 3, several, 2, 9), (several, 2, 1, 7, few)]
    for number in range(15):
        layers, forward = rng.randint(2, 12), rng.randint(2, 30)
        reduce = rng.randint(1, forward) if number % 2 else rng.randint(4 * forward, 9 * forward)
        sizes.append((rng.randint(2, 12), rng.randint(1, 5), layers, forward, reduce))
    return [named(EXPOSED_NAMES, each) for each in sizes]


@check(
    "u14-exposed",
    step_cases,
    relative_tolerance=PROMISED,
    labels={
        "work": "seconds of work",
        "bubble": "seconds of the bubble",
        "exposed": "seconds of the sum that are not hidden",
    },
    fallback="course_utils.formulas.plan.seconds_of_step",
)
def simulated(
    num_micro_batches: int,
    num_stages: int,
    num_layers: int,
    forward_seconds: int,
    reduce_seconds: int,
) -> dict[str, float]:
    """1F1B through the simulator; then the last backward pass of the first stage by layers."""
    backward = 2 * forward_seconds
    schedule = one_forward_one_backward(num_stages, num_micro_batches)
    seconds = PassSeconds(forward=forward_seconds, input_gradient=backward, weight_gradient=0)
    run = simulate_pipeline(schedule, num_micro_batches, seconds=seconds).require_complete()
    now = summed = Fraction(0)
    for _ in range(num_layers):
        now += Fraction(backward, num_layers)
        summed = max(now, summed) + Fraction(reduce_seconds, num_layers)
    bubble = run.idle_seconds(0)
    return {
        "work": float(run.seconds - bubble),
        "bubble": float(bubble),
        "exposed": float(summed - now),
    }


# === u14-days
# Days, device hours and cost of a run.


DAYS_NAMES = ("num_tokens", "tokens_per_step", "step_seconds", "num_devices", "usd_per_device_hour")
WHOLE_DAY = 24


def run_cases(seed: int) -> list[Case]:
    """One device and many; tokens that fill the last step and that do not."""
    rng = random.Random(seed)
    runs = [(86_400 * 10**6, 10**6, 2, 4, 1.5), (10**12, 4_194_304, rng.randint(20, 60), 1, 2.0)]
    for number in range(20):
        per_step = rng.randint(1, 64) * 2**18
        steps = rng.randint(1000, 10**5)
        rest = rng.randint(1, per_step // 2) if number % 2 else 0
        price = rng.randint(4, 20) / 4
        runs.append(
            (per_step * steps + rest, per_step, rng.randint(1, 90), rng.choice((2, 8, 512)), price)
        )
    return [named(DAYS_NAMES, each) for each in runs]


@check(
    "u14-days",
    run_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.step_time.days_and_cost",
)
def counted(
    num_tokens: int,
    tokens_per_step: int,
    step_seconds: int,
    num_devices: int,
    usd_per_device_hour: float,
) -> dict[str, float]:
    """In whole steps and in fractions."""
    whole, rest = divmod(num_tokens, tokens_per_step)
    hours = Fraction((whole + (rest > 0)) * step_seconds, 60 * 60)
    price = Fraction(usd_per_device_hour)
    return {
        "days": float(hours / WHOLE_DAY),
        "device_hours": float(hours * num_devices),
        "usd": float(hours * num_devices * price),
    }
