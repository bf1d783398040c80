"""The checks of unit 04: when does memory run out?"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, named
from autograder.checking.judges import ValueJudge
from autograder.checking.mistakes import Symptom
from autograder.exercises.declaring import declares_check
from autograder.observers.u04 import allocator, fragment, repair_training, snapshot
from autograder.observers.u04.allocator import TRACED, Script
from autograder.observers.u04.repair_training import SCENARIOS
from autograder.observers.u04.snapshot import as_file
from autograder.observers.u04.training_loop import LEARNING_RATE, Setup, hold, precision_of
from course_utils.configs import ModelConfig, RunConfig, precision
from course_utils.formulas.activations import model_saved_bytes
from course_utils.formulas.parameters import parameters
from course_utils.instruments import MemoryTrace, Phase, fake_tensors, trace_memory
from course_utils.reference import Training
from course_utils.reference.allocator import Allocator, CachingAllocator
from course_utils.reference.allocator_replay import DIRECTIONS
from course_utils.reference.allocator_replay import MIB as MIB_of_allocator_replay
from course_utils.reference.allocator_snapshot import snapshot_of, stacks_of
from course_utils.reference.training import ADAMW

# === u04-peak-of-line
# The peak of a memory line, from the births and deaths of storages.


Storage = tuple[int, int | None, int]
"""When it was born, when it died or None, its bytes."""

WORKED: list[Storage] = [(0, None, 60), (1, 4, 24), (3, 6, 40)]


def line_cases(seed: int) -> list[Case]:
    """Peaks at the start, inside, at the end, and twice; deaths along with births or at the end.

    One has more bytes than a float counts, and one has no storages.
    """
    rng = random.Random(seed)
    made = [(WORKED, 5)]
    for scale in (4 * rng.randint(1, 9), 4 * rng.randint(10, 99), 4 * rng.randint(100, 9_999)):
        last = rng.randint(5, 9)
        made += [
            ([(0, None, 3 * scale), (0, 1, 5 * scale), (2, 4, scale)], last),
            ([(0, None, 2 * scale), (1, 3, 4 * scale), (3, 5, 4 * scale)], last),
            ([(0, None, scale), (1, 3, 4 * scale), (4, 5, 4 * scale)], last),
            ([(0, None, scale), (2, last + 1, 2 * scale), (last, last + 1, 7 * scale)], last),
            ([(0, 2, scale), (1, None, 2 * scale), (last, None, 3 * scale)], last),
        ]
    made += [_random_storages(rng) for _ in range(7)]
    huge = 2**53 + 2 * rng.randint(1, 999) + 1
    made.append(([(0, None, huge), (1, 3, 2 * huge), (2, 4, huge // 4)], 4))
    made.append(([], rng.randint(3, 9)))
    return [{"storages": storages, "num_operations": last} for storages, last in made]


def _random_storages(rng: random.Random) -> tuple[list[Storage], int]:
    last = rng.randint(6, 14)
    storages: list[Storage] = [(0, None, 4 * rng.randint(1, 50))]
    for _ in range(rng.randint(3, 8)):
        born = rng.randint(0, last)
        died = rng.choice((None, rng.randint(born + 1, last + 1), rng.randint(born + 1, last + 1)))
        storages.append((born, died, 4 * rng.randint(1, 99)))
    return storages, last


@declares_check(
    "u04-peak-of-line",
    line_cases,
    fallback="course_utils.formulas.memory_over_time.peak_of_storages",
)
def counted_peak(storages: list[Storage], num_operations: int) -> dict[str, int]:
    """The same three numbers, counted over all storages at every operation."""
    line = [
        sum(size for born, died, size in storages if born <= at and (died is None or at < died))
        for at in range(num_operations + 1)
    ]
    return {"peak_bytes": max(line), "operation": line.index(max(line)), "end_bytes": line[-1]}


# === u04-moments
# The bytes live at the end of each phase of a training step.


MOMENTS_NAMES = ("num_params", "num_tensors", "kept_bytes", "step", "is_grad_freed")
MOST_STEPS = 4

Moments = dict[str, int]


def moment_cases(seed: int) -> list[Case]:
    """First and later steps; gradients freed or set to zero; one tensor and several.

    The last have more bytes than a float counts.
    """
    rng = random.Random(seed)
    models = [(rng.randint(10, 99), 2, 4 * rng.randint(5, 60))]
    models.append((rng.randint(2, 9), 1, 4 * rng.randint(5, 60)))
    models.append((rng.randint(100, 999), rng.randint(3, 9), 4 * rng.randint(5, 400)))
    sizes = [(10, 2, 100, 1, True)]
    for model in models:
        for is_grad_freed in (True, False):
            for step in (1, 2, rng.randint(3, MOST_STEPS)):
                sizes.append((*model, step, is_grad_freed))
    huge = (2**52 + 2 * rng.randint(1, 999) + 1, 3, 4 * rng.randint(2**31, 2**32))
    sizes += [(*huge, MOST_STEPS, flag) for flag in (True, False)]
    return [named(MOMENTS_NAMES, each) for each in sizes]


@lru_cache
def _moments_traced(
    num_params: int, num_tensors: int, kept_bytes: int, is_freed: bool
) -> list[Moments]:
    """Moments of the first steps of a real training run.

    Its forward pass multiplies a weight with data of ``kept_bytes``, less two numbers: the loss and
    its gradient are live then too.
    """
    with fake_tensors():
        return _of_training(num_params, num_tensors, kept_bytes, is_freed)


def _of_training(
    num_params: int, num_tensors: int, kept_bytes: int, is_freed: bool
) -> list[Moments]:
    sizes = [num_params - num_tensors + 1] + [1] * (num_tensors - 1)
    weights = nn.ParameterList(torch.ones(size) for size in sizes)
    optimizer = AdamW(weights, foreach=False)

    def loss() -> Tensor:
        data = torch.ones(kept_bytes // 4 - 2)
        sums = [weight.sum() for weight in weights]
        return torch.stack([(weights[0][:1] * data).sum(), *sums]).sum()

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=is_freed)

    trace = trace_memory(step, weights, optimizer, num_steps=MOST_STEPS)
    live = [trace.total_bytes[0], *(phase.end_bytes for phase in trace.phases)]
    names = ("before_forward", "after_forward", "after_backward", "after_step")
    # Each step has three phases, so step n takes the entries 3 n to 3 n + 3. Its first entry is
    # the end of the step before.
    return [dict(zip(names, live[3 * n :], strict=False)) for n in range(MOST_STEPS)]


@declares_check(
    "u04-moments", moment_cases, fallback="course_utils.formulas.memory_over_time.live_at_moments"
)
def measured_moments(
    num_params: int, num_tensors: int, kept_bytes: int, step: int, is_grad_freed: bool
) -> Moments:
    """Live bytes at the end of each phase, from a trace of real training steps."""
    return _moments_traced(num_params, num_tensors, kept_bytes, is_grad_freed)[step - 1]


# === u04-peak
# The bytes live at the three moments where a training step can peak.


ID_BYTES = 8
TOKEN_COUNT_BYTES = 4

Peaks = dict[str, int]


def peak_cases(seed: int) -> list[Case]:
    """Tied and untied, MHA and GQA, one sequence and two, every way to compute AdamW."""
    rng = random.Random(seed)
    worked = {"num_layers": 1, "hidden_size": 4, "num_heads": 1, "ffn_size": 3, "vocab_size": 5}
    smallest = worked | {"is_tied": True}
    runs = [
        (smallest | {"vocab_size": rng.randint(5, 30)}, 2),
        (_random_sizes(rng, 2, False), rng.randint(2, 9)),
    ]
    for is_tied in (True, False):
        for group in (1, rng.randint(2, 3)):
            num_tokens = rng.randrange(3, 40, 2) if group == 1 else rng.randrange(4, 40, 2)
            runs.append((_random_sizes(rng, group, is_tied), num_tokens))
    runs.append((_random_sizes(rng, 1, True), rng.randint(40, 60)))
    cases = [_case(sizes, num_tokens, adamw) for sizes, num_tokens in runs for adamw in ADAMW]
    return [_case(smallest, 2, ADAMW[0]), *cases[1:]]


def _random_sizes(rng: random.Random, group: int, is_tied: bool) -> dict[str, Any]:
    """Sizes of a model of one layer, whose embedding is its largest matrix."""
    num_kv_heads, head_dim = rng.randint(1, 2), rng.choice((2, 4))
    return {
        "num_layers": 1,
        "hidden_size": num_kv_heads * group * head_dim,
        "num_heads": num_kv_heads * group,
        "num_kv_heads": num_kv_heads,
        "ffn_size": rng.randrange(5, 40, 2),
        "vocab_size": rng.randrange(61, 120, 2),
        "is_tied": is_tied,
    }


def _case(sizes: dict[str, Any], num_tokens: int, adamw: str) -> Case:
    model = model_of(sizes)
    num_params = sum(parameters(model).values())
    saved = sum(model_saved_bytes(model, _run(num_tokens)).values())
    # Temporary bytes in fp32: a loop makes two tensors as large as one weight, at most the largest;
    # foreach makes one number for each parameter; the fused kernel makes nothing.
    of_adamw = {"for-loop": 8 * _largest(model), "foreach": 4 * num_params, "fused": 0}
    return {
        "model": sizes,
        "num_params": num_params,
        # Ids and targets are there before the forward pass. The loss also keeps their number, but
        # tensors of a single number are left out of this exercise.
        "kept_bytes": saved - 2 * ID_BYTES * num_tokens - TOKEN_COUNT_BYTES,
        "num_tokens": num_tokens,
        "temporary_bytes": of_adamw[adamw],
    }


def _run(num_tokens: int) -> RunConfig:
    """One sequence, or two where the tokens can be halved."""
    num_sequences = 1 + (num_tokens % 2 == 0)
    return RunConfig(
        micro_batch_size=num_sequences,
        seq_len=num_tokens // num_sequences,
        precision=precision("fp32"),
        is_loss_fp32=True,
    )


def _largest(model: ModelConfig) -> int:
    """Numbers in the largest weight tensor."""
    width = max(model.vocab_size, model.ffn_size, model.num_heads * model.head_dim)
    return model.hidden_size * width


@lru_cache
def _peak_traced(model: ModelConfig, num_tokens: int) -> dict[str, Peaks]:
    """One step of three equal trainings, one for each way to compute AdamW, under one trace.

    All have their optimizer states; what the other two hold is subtracted.
    """
    trainings = [Training(model, _run(num_tokens), adamw=adamw) for adamw in ADAMW]
    for training in trainings:
        training.step()
    remaining = iter(trainings)
    owners = [each for training in trainings for each in training.owners]
    trace = trace_memory(lambda: next(remaining).step(), *owners, num_steps=len(trainings))
    trace = replace(trace, storages=tuple(each for each in trace.storages if each.shape))
    # All three hold the same when the trace begins, and again after their own step. A step has
    # three phases: backward and the optimizer's are the two from 3 * number + 1 on.
    of_others = trace.total_bytes[0] // len(ADAMW) * (len(ADAMW) - 1)
    return {
        adamw: {
            moment: live - of_others
            for moment, live in _moments(trace, *trace.phases[3 * number + 1 :][:2]).items()
        }
        for number, adamw in enumerate(ADAMW)
    }


def _moments(trace: MemoryTrace, backward: Phase, step: Phase) -> Peaks:
    """Live bytes at the logits' gradient, at backward's last allocation, at the step's peak."""
    made = [each for each in trace.storages if backward.start <= each.born < backward.stop]
    logits = next(each for each in made if each.operation == "_log_softmax_backward_data")
    return {
        "loss": trace.total_bytes[logits.born],
        "backward": trace.total_bytes[max(each.born for each in made)],
        "step": max(trace.total_bytes[step.start : step.stop]),
    }


@declares_check(
    "u04-peak", peak_cases, fallback="course_utils.formulas.memory_over_time.live_at_candidates"
)
def measured_peaks(
    model: dict[str, Any],
    num_params: int,
    kept_bytes: int,
    num_tokens: int,
    temporary_bytes: int,
) -> Peaks:
    """What a trace of real training shows, without tensors of a single number."""
    adamw = {0: "fused", 4 * num_params: "foreach"}.get(temporary_bytes, "for-loop")
    return _peak_traced(model_of(model), num_tokens)[adamw]


# === for several exercises
# How the loop with three leaks is called: each leak by itself, in varied surroundings.


PLAIN = {
    "is_training": True,
    "is_first_batch_small": False,
    "has_gradients": False,
    "is_head_frozen": False,
    "is_recording": True,
    "precision": "float64",
}


def training_cases(seed: int) -> list[Case]:
    """Each leak by itself, with one sequence in a batch and with several.

    Evaluations come with and without training before them, and with more bytes of logits than of
    one batch's graph; what is around them varies: before one training there are gradients already.
    States come in both precisions.
    """
    rng = random.Random(seed)
    cases = [_evaluation(rng, number) for number in range(12)]
    for number in range(5):
        sizes = _sizes(rng, number, num_batches=rng.randint(4, 5), seq_len=8)
        average = {"scenario": "confidence", "width": rng.randint(2, 3)}
        average["num_words"] = rng.randint(60, 68)
        precision = "float32" if number == 3 else "float64"
        samples = {"scenario": "states", "width": rng.choice((40, 44)), "num_words": 3}
        around = PLAIN | {"is_training": number != 1, "is_head_frozen": number == 2}
        cases.append(average | sizes | {"num_layers": 1, "num_held_out": 1} | around)
        around |= {"precision": precision}
        sizes |= {"num_batches": 4, "seq_len": rng.randint(10, 12)}
        cases.append(samples | sizes | {"num_layers": 1, "num_held_out": 1} | around)
    return cases


def _evaluation(rng: random.Random, number: int) -> Case:
    num_batches = 2 if number in (3, 7) else 0
    sizes = _sizes(rng, number, num_batches=num_batches, seq_len=rng.choice((5, 6)))
    return {
        "scenario": "loss",
        "width": rng.choice((20, 28)),
        "num_words": 5,
        **sizes,
        "num_layers": 2,
        "num_held_out": 20 if number > 9 else rng.choice((5, 6)),
        "is_training": number % 2 == 0,
        "is_first_batch_small": number in (1, 5, 7),
        "has_gradients": number % 3 == 1,
        "is_head_frozen": number % 4 == 2,
        "is_recording": number not in (5, 8),
        "precision": "float64",
    }


def _sizes(rng: random.Random, number: int, *, num_batches: int, seq_len: int) -> Case:
    num_sequences = rng.randint(2, 3) if number % 2 else 1
    return {"num_batches": num_batches, "num_sequences": num_sequences, "seq_len": seq_len}


# === u04-repair-training
# A training loop with an evaluation, an average and samples, of which none may leak.


def _shares(setup: Setup, ids: Tensor) -> Tensor:
    exponents: Tensor = setup.model(ids).exp()
    return exponents / exponents.sum(-1, keepdim=True)


@torch.no_grad()
def _mean_loss(setup: Setup) -> Tensor:
    losses = [-_shares(setup, x).gather(-1, y[..., None]).log().mean() for x, y in setup.held_out]
    return torch.stack(losses).mean()


def _unit_bytes(case: Case, setup: Setup) -> int:
    """One batch's probabilities, its hidden states but the last, or all that its graph keeps."""
    number_bytes = precision_of(case).itemsize
    num_tokens: int = case["num_sequences"] * case["seq_len"]
    if case["scenario"] == "confidence":
        num_shares: int = num_tokens * case["num_words"]
        return number_bytes * num_shares
    if case["scenario"] == "states":
        num_others: int = (num_tokens - case["num_sequences"]) * case["width"]
        return number_bytes * num_others
    ids = torch.zeros(1, num_tokens, dtype=torch.long)
    with torch.enable_grad():
        held = hold(lambda: F.cross_entropy(setup.model(ids)[0], ids[0]), setup.model)
    return held.left_bytes - number_bytes  # of the loss itself


@declares_check(
    "u04-repair-training",
    training_cases,
    observer=repair_training,
    scenarios=SCENARIOS,
)
def measured_repair_training(**case: Any) -> dict[str, Any]:
    """What is right by `torch.autograd.grad` and plain sums, and the unit of what may be held."""
    setup, confidence, states, later = Setup.of(case), 0.0, [], []
    trained = [weight for weight in setup.model.parameters() if weight.requires_grad]
    for ids, targets in setup.batches:
        with torch.no_grad():
            shares = _shares(setup, ids)
            confidence = 0.9 * confidence + 0.1 * float(shares.max(-1).values.mean())
            states.append(setup.body(ids[:, -1]))
        losses = -_shares(setup, ids).gather(-1, targets[..., None]).log()
        gradients = torch.autograd.grad(losses.mean(), trained)
        with torch.no_grad():
            for weight, gradient in zip(trained, gradients, strict=True):
                before = 0 if weight.grad is None else weight.grad
                weight.sub_(LEARNING_RATE * (before + gradient))
                weight.grad = None
            later.append(setup.body(ids[:, -1]))
    right = {
        "weights": [w.detach() for w in setup.model.parameters()] if setup.batches else [],
        "loss": _mean_loss(setup),
        "confidence": torch.tensor(confidence, dtype=precision_of(case)),
        "states": states if case["scenario"] == "states" else [],
        "later_states": later if case["scenario"] == "states" else [],
        "unit_bytes": _unit_bytes(case, setup),
    }
    return {"right": right}  # apart: a fact and one of these have the same name


# === for several exercises
# Scripts of requests to an allocator: one per rule, random ones, and that of a training step.
#
# A script is a list of whole numbers: a positive one requests that many bytes, and -n frees the
# block of the n-th request.


KIB = 2**10
KINDS = ("small", "large", "both")


def _random_script(rng: random.Random, num_requests: int, size: Callable[[], int]) -> Script:
    """A script with more requests than frees, so that some segments fill."""
    script: Script = []
    used: list[int] = []
    for _ in range(num_requests):
        if used and rng.random() < 0.45:
            script.append(-used.pop(rng.randrange(len(used))))
        else:
            script.append(size())
            used.append(sum(each > 0 for each in script))
    return script


def _small_size(rng: random.Random) -> int:
    return rng.choice(
        (
            rng.randint(1, 4 * KIB),
            512 * rng.randint(1, 6),
            rng.randint(300_000, MIB_of_allocator_replay),
        )
    )


def _large_size(rng: random.Random) -> int:
    return rng.choice(
        (
            rng.randint(MIB_of_allocator_replay + 1, 4 * MIB_of_allocator_replay),
            rng.randint(2, 7) * MIB_of_allocator_replay,
            3 * MIB_of_allocator_replay,
            12 * MIB_of_allocator_replay + 1,
        )
    )


def _small_scripts(rng: random.Random) -> Iterator[Script]:
    """The rules of the small pool one by one."""
    a, b = 512 * rng.randint(2, 9), 512 * rng.randint(10, 20)
    yield [1, 1, 1, -2, 600, 400]  # the worked case: a hole that is too small, then one that fits
    yield [
        MIB_of_allocator_replay,
        MIB_of_allocator_replay,
        MIB_of_allocator_replay,
        MIB_of_allocator_replay,
        -1,
        -3,
        MIB_of_allocator_replay,
        MIB_of_allocator_replay,
        a,
    ]  # equal ones in two segments: the lower address
    yield [rng.randint(1, 511), rng.randint(513, 1023), 512]  # rounded up
    yield [a + b, 1, a, 1, -1, -3, a - 511]  # the smallest that fits, not the first
    yield [a, 1, a, 1, a, 1, -5, -1, -3, a, a]  # of equal blocks the lowest, not the last freed
    yield [a, b, 1, -1, -2, a + b]  # joined with the one before
    yield [a, b, 1, -2, -1, a + b]  # joined with the one after
    yield [a, b, a, 1, -1, -3, -2, 2 * a + b]  # joined with both
    yield [
        b,
        1,
        -1,
        b - a,
        a,
        a - 512,
        MIB_of_allocator_replay - a,
        MIB_of_allocator_replay,
    ]  # what is left is split off
    yield [
        MIB_of_allocator_replay,
        MIB_of_allocator_replay,
        MIB_of_allocator_replay,
        MIB_of_allocator_replay,
        MIB_of_allocator_replay,
        MIB_of_allocator_replay,
        -2,
        -3,
        -5,
        MIB_of_allocator_replay,
        b,
    ]  # neighbours of two segments


def _large_scripts(rng: random.Random) -> Iterator[Script]:
    """The rules of the large pool one by one, each paired with a small script.

    In order: a hole that is used whole, as its rest is too small to split off; equal blocks in two
    segments; sizes about 10 MiB, from which on segments are no longer 20 MiB; the smallest block
    that fits; the lowest of equal blocks; joining with the block before, with the one after, and
    with both; a rest that is not split off; free segments side by side, which are not joined.
    """
    a, b = MIB_of_allocator_replay * rng.randint(2, 4), MIB_of_allocator_replay * rng.randint(5, 8)
    little = 512 * rng.randint(1, 2000)
    yield [
        3 * MIB_of_allocator_replay,
        5 * MIB_of_allocator_replay,
        -1,
        2 * MIB_of_allocator_replay,
        3 * MIB_of_allocator_replay,
        MIB_of_allocator_replay + little,
    ]
    yield [
        12 * MIB_of_allocator_replay,
        12 * MIB_of_allocator_replay,
        -1,
        -2,
        11 * MIB_of_allocator_replay,
        11 * MIB_of_allocator_replay,
        MIB_of_allocator_replay + little,
    ]
    almost = 10 * MIB_of_allocator_replay - rng.randint(1, 511)  # requested; the block has 10 MiB
    yield [
        almost,
        10 * MIB_of_allocator_replay - 512,
        10 * MIB_of_allocator_replay,
        10 * MIB_of_allocator_replay + 1,
        MIB_of_allocator_replay + 1,
        20 * MIB_of_allocator_replay + 1,
    ]
    yield [a + b, a, 2 * MIB_of_allocator_replay, b, -1, -3, 2 * MIB_of_allocator_replay]
    yield [
        a,
        MIB_of_allocator_replay + 1,
        a,
        MIB_of_allocator_replay + 1,
        a,
        MIB_of_allocator_replay + 1,
        -5,
        -1,
        -3,
        a,
        a,
    ]
    yield [a, b, 4 * MIB_of_allocator_replay, -1, -2, a + b, 2 * MIB_of_allocator_replay]
    yield [a, b, 4 * MIB_of_allocator_replay, -2, -1, a + b, 2 * MIB_of_allocator_replay]
    yield [a, b, a, 2 * MIB_of_allocator_replay, -1, -3, -2, 2 * a + b - 512 * rng.randint(1, 9)]
    yield [
        4 * MIB_of_allocator_replay,
        b,
        16 * MIB_of_allocator_replay - b,
        -1,
        3 * MIB_of_allocator_replay + little,
        -2,
        b + MIB_of_allocator_replay - little,
    ]  # too little left
    yield [
        20 * MIB_of_allocator_replay,
        20 * MIB_of_allocator_replay,
        -1,
        -2,
        30 * MIB_of_allocator_replay,
        20 * MIB_of_allocator_replay,
        20 * MIB_of_allocator_replay,
        MIB_of_allocator_replay + little,
    ]


def allocator_cases(seed: int) -> list[Case]:
    """Each rule alone, then random scripts and one of a traced training.

    Each comes as three cases: small blocks, large blocks, and both.
    """
    rng = random.Random(seed)
    pairs = list(zip(_small_scripts(rng), _large_scripts(rng), strict=True))
    # A rest of exactly one MiB is not split off.
    more = 512 * rng.randint(1, 2000)
    large = [
        4 * MIB_of_allocator_replay,
        5 * MIB_of_allocator_replay,
        11 * MIB_of_allocator_replay,
        -1,
        3 * MIB_of_allocator_replay,
        -2,
        6 * MIB_of_allocator_replay,
        MIB_of_allocator_replay + more,
    ]
    pairs.append(([1, MIB_of_allocator_replay, more], large))
    rows: list[dict[str, Script | str]] = [
        {"small": small, "large": large, "both": _interleaved(small, large)}
        for small, large in pairs
    ]
    rows[0]["both"] = [
        3 * MIB_of_allocator_replay,
        1,
        MIB_of_allocator_replay,
        MIB_of_allocator_replay + 1,
        more,
    ]
    rows += [
        {
            "small": _random_script(rng, 20, lambda: _small_size(rng)),
            "large": _random_script(rng, 20, lambda: _large_size(rng)),
            "both": _random_script(rng, 20, lambda: rng.choice((_small_size, _large_size))(rng)),
        }
        for _ in range(9)
    ]
    rows[-1]["both"] = f"{TRACED}{64 * rng.randint(100, 150)}"
    return [
        {"scenario": kind, "script": row[kind], "segments": DIRECTIONS[n % 3]}
        for n, row in enumerate(rows)
        for kind in KINDS
    ]


def _interleaved(small: Script, large: Script) -> Script:
    """Two scripts with their requests in alternation, and their blocks renumbered."""
    script: Script = []
    numbers: tuple[list[int], list[int]] = ([], [])  # new ones of each script's blocks
    for pair in zip_longest(small, large):
        for request, mine in zip(pair, numbers, strict=True):
            if request is None:
                continue
            if request > 0:
                mine.append(1 + sum(each > 0 for each in script))
            script.append(request if request > 0 else -mine[-request - 1])
    return script


# === u04-allocator
# The student's caching allocator, against one that searches a plain list of blocks.
#
# An allocator is judged by how many requests it serves right, up to the first that differs in the
# address returned or in the bytes reserved by then.


@declares_check(
    "u04-allocator",
    allocator_cases,
    observer=allocator,
    symptoms=(
        Symptom(
            "Not even the first request of a script is served as the rules say. What do your "
            "`allocate` and `reserve` return, and is it the same?",
            lambda *case: {"served_requests": 0},
        ),
    ),
    scenarios=KINDS,
    fallback="course_utils.reference.allocator.Allocator",
    give_away=("course_utils.reference.allocator",),
)
def measured_allocator(**case: Any) -> dict[str, Any]:
    """Every request served, and the addresses and reserved bytes that are right."""
    right: Any = allocator.observe(Allocator, case)
    return {"served_requests": len(right["served"]), "served": right["served"]}


# === u04-fragment
# A script that fragments memory, played on the course's allocator.


def fragment_cases(seed: int) -> list[Case]:
    """Devices of 40 MiB to 1,000 MiB."""
    rng = random.Random(seed)
    sizes = [40, 60, 80, 20 * rng.randint(45, 50), *(20 * rng.randint(5, 50) for _ in range(16))]
    return [{"device_bytes": MIB_of_allocator_replay * size} for size in sizes]


@declares_check("u04-fragment", fragment_cases, observer=fragment)
def measured_fragment(device_bytes: int) -> dict[str, int]:
    """Nothing: on no device does a right script miss its goal in any way."""
    return {}


# === u04-snapshot
# A reader of memory snapshots, against the requests that a snapshot was written from.
#
# What is right comes from the requests and from an allocator's levels; no snapshot is read for it.


SNAPSHOT_MIB = 2**20
SNAPSHOT_NAMES = ("embed", "attend", "mlp", "loss", "adam", "")  # the last: autograd's own thread


def snapshot_cases(seed: int) -> list[Case]:
    """Recordings from the start and late; a peak reached twice; a new segment after the peak."""
    rng = random.Random(seed)
    worked: Case = {
        "script": [600, 1000, -1, 300],
        "functions": ["embed", "mlp", "mlp", "loss"],
        "recorded_from": 0,
    }
    made = [each(rng) for each in (_twice, _with_holes) for _ in range(2)]
    made += [_random(rng, number) for number in range(18)]
    return [{**case, "file": as_file(written(**case))} for case in [worked, *made]]


def written(script: list[int], functions: list[str], recorded_from: int) -> dict[str, Any]:
    """The snapshot of a script, each request by its function."""
    return snapshot_of(script, stacks_of(functions), recorded_from)


def _twice(rng: random.Random) -> Case:
    """A peak that is reached, left and reached again; in the end a whole segment is free.

    Who holds most at the first peak held more before, and holds less at the second.
    """
    small, large = rng.randint(600, 5000), rng.randint(12 * SNAPSHOT_MIB, 30 * SNAPSHOT_MIB)
    script = [1, small, -1, small + 7, 2 * small, large, -3, -5, large, small + 7, -6]
    first, second, others, last = rng.sample(SNAPSHOT_NAMES[:-1], 4)
    at_first = [first, others, first, first, others, first]
    functions = [*at_first, first, first, second, last, second]
    return {"script": script, "functions": functions, "recorded_from": 0}


def _with_holes(rng: random.Random) -> Case:
    """Holes that are too small for the last request: a new segment comes after the peak.

    Most bytes of the peak have no frame, and who holds most of the others holds more later.
    """
    size = 2 * SNAPSHOT_MIB - 512 * rng.randint(0, 9)
    script = [*[size] * 9, -1, -3, -5, 2 * size]
    most, other, another = rng.sample(SNAPSHOT_NAMES[:-1], 3)
    functions = [*[""] * 5, most, most, other, another, *_functions(rng, 3), most]
    return {"script": script, "functions": functions, "recorded_from": 0}


def _random(rng: random.Random, number: int) -> Case:
    """Up to 40 requests; every second script is recorded from a third on."""
    script, live = list[int](), list[int]()
    num_requests = rng.randint(16, 40)
    late = num_requests // 3 if number % 2 else 0
    for at in range(num_requests):
        if live and at not in (late, num_requests - 1) and rng.random() < 0.45:
            script.append(-live.pop(rng.randrange(len(live))))
        else:
            script.append(rng.randint(1, rng.choice((2000, SNAPSHOT_MIB // 2, 12 * SNAPSHOT_MIB))))
            live.append(sum(request > 0 for request in script))
    functions = _functions(rng, num_requests)
    return {"script": script, "functions": functions, "recorded_from": late}


def _functions(rng: random.Random, count: int) -> list[str]:
    return [rng.choice(SNAPSHOT_NAMES) for _ in range(count)]


def _at_peak(event: int, held: dict[int, tuple[str, int]]) -> dict[str, int]:
    by_function = Counter[str]()
    for name, num_bytes in held.values():
        by_function[name] += num_bytes
    by_function.pop("", None)  # without a frame, or allocated before the recording
    return {
        "peak_bytes": sum(num_bytes for _, num_bytes in held.values()),
        "peak_event": event,
        "holder_bytes": max(by_function.values(), default=0),
    }


@declares_check(
    "u04-snapshot",
    snapshot_cases,
    observer=snapshot,
    judge=ValueJudge,
    give_away=("course_utils.instruments.allocator_history.read_history",),
)
def counted(
    script: list[int], functions: list[str], recorded_from: int, file: Tensor
) -> dict[str, int]:
    """The four numbers, counted while the requests are served; nothing of the file is read."""
    allocator = CachingAllocator()
    held: dict[int, tuple[str, int]] = {}
    num_events, reserved, peak, right = 0, 0, -1, {}
    for number, level in enumerate(allocator.play_script(script)):
        # An allocation is one event, and two with a new segment; a free is requested and completed,
        # which is two.
        is_recorded, request = number >= recorded_from, script[number]
        if request > 0:
            block = sum(each > 0 for each in script[: number + 1])
            held[block] = (functions[number] if is_recorded else "", request)
            num_new = 1 + (level.reserved_bytes > reserved)
        else:
            held.pop(-request)
            num_new = 2
        reserved = level.reserved_bytes
        if is_recorded:
            num_events += num_new
            live = sum(num_bytes for _, num_bytes in held.values())
            if live > peak:
                peak, right = live, _at_peak(num_events - 1, held)
    return {**right, "trapped_bytes": allocator.levels.inactive_split_bytes}
