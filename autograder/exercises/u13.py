"""The checks of unit 13: serve it."""

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from math import comb
from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, named
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import declares_check
from autograder.observers.checksums import checksum
from autograder.observers.u13 import accept, cached_step, latent_step, paged
from autograder.observers.u13.latent_step import SIZES
from autograder.observers.u13.paged_scripts import random_script
from course_utils.instruments import fake_tensors
from course_utils.records import decode_rates
from course_utils.reference.layers import GroupedAttention, MultiHeadLatentAttention

Rows = list[list[float]]

# === u13-cache-bytes
# The bytes of a cache, against what the layers of a real model must keep.


CACHE_BYTES_NAMES = ("model", "num_sequences", "context", "element_bytes", "window")
DTYPES = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
WORKED = {
    "num_layers": 2,
    "hidden_size": 12,
    "num_heads": 4,
    "num_kv_heads": 2,
    "ffn_size": 5,
    "vocab_size": 9,
}
HEADS = ((4, 4, 6), (6, 2, 5), (8, 1, 4), (6, 3, 10))  # a, a_kv, d


def cache_cases(seed: int) -> list[Case]:
    """Own keys, shared ones, one for all, latents; windows shorter and longer than the context.

    The last one is larger than a float can count.
    """
    rng = random.Random(seed)
    cases = [(WORKED, 5, 7, 2, 0), (WORKED, 5, rng.randint(6, 60), 2, 4)]
    for number in range(20):
        context = rng.randint(9, 60)
        window = (0, rng.randint(2, 8), 0, context + rng.randint(1, 9))[number // 5]
        cases.append((_model(rng, number), rng.randint(2, 6), context, 2 ** (number % 4), window))
    cases += [(_model(rng, 4), 3, 2**52 + 1, 4, 0), (_model(rng, 1), 3, 2**52 + 1, 4, 0)]
    return [named(CACHE_BYTES_NAMES, each) for each in cases]


def _model(rng: random.Random, number: int) -> dict[str, Any]:
    is_latent = number % 5 == 4
    heads, kv_heads, head_dim = HEADS[0 if is_latent else number % 5]
    sizes: dict[str, Any] = {
        "num_layers": rng.randint(2, 4),
        "hidden_size": rng.choice((16, 24, 32)),
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": head_dim,
        "ffn_size": rng.randint(17, 70),
        "vocab_size": rng.randint(201, 399),
    }
    if is_latent:
        sizes["latent_attention"] = {
            "kv_rank": rng.randint(9, 20),
            "q_rank": rng.randint(21, 30),
            "nope_head_dim": rng.randint(3, 7),
            "rope_head_dim": 2 * rng.randint(1, 3),
            "value_head_dim": rng.randint(3, 7),
        }
    return sizes


def _attention(model: dict[str, Any]) -> nn.Module:
    sizes = model_of(model)
    if sizes.latent_attention is not None:
        return MultiHeadLatentAttention(sizes, sizes.latent_attention, "cpu")
    return GroupedAttention(sizes, "cpu")


def _remembered(attention: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """The projections that later tokens read: keys and values, or latents."""
    if isinstance(attention, MultiHeadLatentAttention):
        yield attention.kv_down(x)
    elif isinstance(attention, GroupedAttention):
        yield from (attention.key(x), attention.value(x))


@declares_check(
    "u13-cache-bytes", cache_cases, fallback="course_utils.formulas.serving.cache_bytes"
)
def kept_bytes(
    model: dict[str, Any], num_sequences: int, context: int, element_bytes: int, window: int
) -> int:
    """Bytes of what a later token needs of the earlier ones, layer by layer, on fake tensors."""
    with fake_tensors():
        sizes = model_of(model)
        x = torch.empty(num_sequences, context, sizes.hidden_size)
        kept = [
            each[:, -window:].to(DTYPES[element_bytes], copy=True)
            for _ in range(sizes.num_layers)
            for each in _remembered(_attention(model), x)
        ]
        return sum(each.nbytes for each in kept)


# === u13-cached-step
# A step of decoding: its result, and that it reads the cache once and copies nothing.


CACHED_STEP_SCENARIOS = ("result", "bytes")
CACHED_STEP_NAMES = (
    "scenario",
    "num_sequences",
    "num_heads",
    "num_kv_heads",
    "width",
    "length",
    "room",
)
ELEMENT_BYTES = 8


def step_cases(seed: int) -> list[Case]:
    """Shared keys in most cases, own ones in some; an empty cache, one that is full afterwards."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("result", 2, 4, 2, 16, 20, 24)]
    for number in range(21):
        scenario = CACHED_STEP_SCENARIOS[number % 2]
        a_kv = rng.randint(2, 3)
        a = a_kv * (1 if number % 7 == 3 else rng.randint(2, 3))
        length = rng.randint(12, 40) if number % 5 or scenario == "bytes" else 0
        room = length + 1 + (0 if number % 4 == 1 else rng.randint(2, 9))
        cases.append((scenario, rng.randint(2, 3), a, a_kv, 16, length, room))
    cases.append(("bytes", 2, 8, 1, 32, rng.randint(20, 38), 40))
    return [named(CACHED_STEP_NAMES, each) for each in cases]


@declares_check(
    "u13-cached-step",
    step_cases,
    observer=cached_step,
    scenarios=CACHED_STEP_SCENARIOS,
    fallback="course_utils.reference.cached_block.decode_attention",
    give_away=("course_utils.reference.cached_block", "course_utils.reference.generation"),
)
def measured_cached_step(**case: Any) -> dict[str, Any]:
    """Attention head by head, over the tokens up to the new one; the least bytes of the cache."""
    q, k_new, *_ = cached_step.inputs_of(case)
    k_cache, v_cache = cached_step.buffers_afterwards(case)
    length, group = case["length"], case["num_heads"] // case["num_kv_heads"]
    out = torch.empty_like(q)
    for head in range(case["num_heads"]):
        keys, values = (each[:, head // group, : length + 1] for each in (k_cache, v_cache))
        scores = (keys * q[:, head, None]).sum(-1) * case["width"] ** -0.5
        out[:, head] = (scores.softmax(-1)[..., None] * values).sum(1)
    right = {"checksum": checksum(out, out), "out": out}
    if case["scenario"] != "bytes":
        return right
    token = 2 * k_new.numel() * ELEMENT_BYTES
    moved = {"read_bytes": (length + 1) * token, "written_bytes": token}
    return right | moved


# === u13-served
# How many conversations are fast enough, against exact fractions, one segment after another.


SERVED_NAMES = ("attention", "num_layers", "other_seconds", "room", "slowest")
SERVED_WORKED = [[1, 0.001], [3, 0.002], [5, 0.005]]
KEY_HEADS = (8, 1)
LEAST_CONTEXT, FEWEST_ROWS = 256, 4
SPEED, ROOM, LAST_ROW, TOO_SLOW = "speed", "room", "last row", "too slow"
LIMITS = (SPEED, SPEED, ROOM, SPEED, LAST_ROW, SPEED, TOO_SLOW)
CLEARLY = Fraction(1, 10**6)  # the speed that is asked for lies so far from every speed that occurs


def served_cases(seed: int) -> list[Case]:
    """Measured rows of three devices, some left out; then made ones; each limit in turn.

    Then any speed, speeds that are exactly those asked for, and rows that fall.
    """
    rng = random.Random(seed)
    cases: list[Case] = [named(SERVED_NAMES, (SERVED_WORKED, 2, 0.003, 9, 90))]
    for rows_of in (_measured_attention, _made_attention):
        cases += [_served_case(rng, rows_of, LIMITS[number % len(LIMITS)]) for number in range(14)]
        cases += [_served_case(rng, rows_of, each) | {"slowest": 0} for each in (ROOM, LAST_ROW)]
    cases += [_exact_case(rng) for _ in range(3)]
    return cases + [_falling_case(rng, number % 2 == 0) for number in range(4)]


def _exact_case(rng: random.Random) -> Case:
    """One number is exactly as fast as asked. All is in binary fractions, so that no sum rounds."""
    rate, deep, others = rng.randint(5, 8), rng.randint(1, 5), rng.randint(0, 8)
    unit = 2.0 ** -(rate + deep + 12)  # seconds, of one layer
    allowed = (16 - others) * 2**8  # of these units: the step less all else
    counts, units = [1], [0]
    for _ in range(rng.randint(2, 5)):
        more = rng.choice((2, 4, 8, 16))
        counts.append(counts[-1] + more)
        units.append(units[-1] + more * rng.randint(1, 20))
    steps = _steps([list(each) for each in zip(counts, units, strict=True)], 1, 0)
    first = allowed - int(steps[rng.randint(2, counts[-1] - 1)])
    rows = [[count, (first + each) * unit] for count, each in zip(counts, units, strict=True)]
    room = counts[-1] + rng.randint(1, 300)
    return named(SERVED_NAMES, (rows, 2**deep, others * 2.0 ** -(rate + 4), room, 2**rate))


def _falling_case(rng: random.Random, is_one_too_slow: bool) -> Case:
    """Made rows that rise and fall: some number is fast enough, and a smaller one is not."""
    while True:
        counts = [1, *sorted(rng.sample(range(3, 60), 4))]
        rows: Rows = [[count, round(rng.uniform(1e-5, 6e-5), 8)] for count in counts]
        layers, others = rng.randint(12, 80), round(rng.uniform(0.5, 12) * 1e-3, 6)
        steps = _steps(rows, layers, others)
        slowest = round(0.99 * float(1 / rng.choice(list(steps.values()))), 1)
        room = counts[-1] + rng.randint(1, 300)
        case = named(SERVED_NAMES, (rows, layers, others, room, slowest))
        most = _most(case, steps)
        slow = [count for count in range(1, most) if steps[count] * Fraction(slowest) > 1]
        if slow and (slow[0] == 1) == is_one_too_slow and _is_clear(steps, slowest):
            return case


def _measured_attention(rng: random.Random) -> Rows:
    """Rows of a device at one context, from 1 conversation, some later ones left out."""
    hardware, heads = rng.choice(tuple(decode_rates.NAMES)), rng.choice(KEY_HEADS)
    contexts = decode_rates.measured_contexts(hardware, heads)
    context = rng.choice([each for each in contexts if each >= LEAST_CONTEXT])
    first, *others = decode_rates.attention_rows(hardware, heads, context)
    if len(others) < FEWEST_ROWS:
        return _measured_attention(rng)
    return [first, *sorted(rng.sample(others, rng.randint(FEWEST_ROWS - 1, len(others) - 1)))]


def _made_attention(rng: random.Random) -> Rows:
    """Rows of any counts, of which one can be as quick as the one before."""
    counts = [1, *sorted(rng.sample(range(3, 120), rng.randint(3, 6)))]
    seconds = [rng.uniform(1e-5, 4e-5)]
    for low, high in pairwise(counts):
        seconds.append(seconds[-1] + (high - low) * rng.choice((0, 2e-6, 5e-6, 8e-6)))
    return [[count, round(each, 8)] for count, each in zip(counts, seconds, strict=True)]


def _served_case(rng: random.Random, rows_of: Callable[[random.Random], Rows], limit: str) -> Case:
    """A case of which one limit holds: speed, room, what was measured, or too slow at all."""
    while True:
        rows, layers = rows_of(rng), rng.randint(12, 80)
        others = round(rng.uniform(0.5, 12) * 1e-3, 6)
        last = int(rows[-1][0])
        room = rng.randint(2, last - 1) if limit == ROOM else last + rng.randint(1, 300)
        if limit == LAST_ROW:
            room = last + rng.randint(20, 300)
        steps = _steps(rows, layers, others)
        number = {SPEED: rng.randint(2, last - 1), TOO_SLOW: 1}.get(limit, min(room, last))
        fastest = float(1 / steps[number])
        slowest = round(fastest * {TOO_SLOW: 1.2}.get(limit, rng.uniform(0.96, 0.999)), 1)
        case = named(SERVED_NAMES, (rows, layers, others, room, slowest))
        if slowest > 1 and _limit_of(case, steps) == limit and _is_clear(steps, slowest):
            return case


def _steps(rows: Rows, num_layers: int, other_seconds: float) -> dict[int, Fraction]:
    """Exact seconds of a step by conversations, on each segment from its first row to its last."""
    found = {}
    for (low, first), (high, last) in pairwise(rows):
        slope = (Fraction(last) - Fraction(first)) / int(high - low)
        for more in range(int(high - low) + 1):
            attention = Fraction(first) + slope * more
            found[int(low) + more] = Fraction(other_seconds) + num_layers * attention
    return found


def _limit_of(case: Case, steps: dict[int, Fraction]) -> str:
    """What keeps the case from more conversations; nothing that only one row decides."""
    most, last = _most(case, steps), max(steps)
    if most == 0:
        return TOO_SLOW
    if most == case["room"]:
        return ROOM
    if most == last:
        return LAST_ROW
    measured = {int(count) for count, _ in case["attention"]}
    return SPEED if most not in measured else ""


def _most(case: Case, steps: dict[int, Fraction]) -> int:
    fitting = (count for count in steps if count <= case["room"])
    quick = (count for count in fitting if steps[count] * Fraction(case["slowest"]) <= 1)
    return max(quick, default=0)


def _is_clear(steps: dict[int, Fraction], slowest: float) -> bool:
    return all(abs(step * Fraction(slowest) - 1) > CLEARLY for step in steps.values())


@declares_check(
    "u13-served",
    served_cases,
    relative_tolerance=PROMISED,
    labels={
        "most": "conversations",
        "each": "tokens per second of each",
        "all": "tokens per second of all",
    },
    fallback="course_utils.formulas.serving_rates.serve",
    give_away=("course_utils.formulas.serving_rates",),
)
def walked(**case: Any) -> dict[str, float]:
    """The largest number of those that are fast enough, of all that fit and were measured."""
    steps = _steps(case["attention"], case["num_layers"], case["other_seconds"])
    most = _most(case, steps)
    if most == 0:
        return {"most": 0, "each": 0.0, "all": 0.0}
    return {
        "most": most,
        "each": float(1 / steps[most]),
        "all": float(most / steps[most]),
    }


# === u13-latent-step
# Attention over latents: its result, and that keys and values are never made again.


LATENT_STEP_SCENARIOS = ("result", "flops")
LATENT_STEP_NAMES = ("scenario", *SIZES)


def latent_cases(seed: int) -> list[Case]:
    """One cached token and many; matrices that widen and that narrow."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("result", 2, 4, 10, 16, 8, 4, 12)]
    for number in range(21):
        context = 1 if number in (4, 8) else rng.randint(12, 40)
        rank, nope, rope = rng.randint(9, 20), rng.randint(5, 12), 2 * rng.randint(1, 4)
        sizes = rng.randint(2, 3), rng.randint(2, 5), context, rank, nope, rope, rng.randint(5, 12)
        cases.append((LATENT_STEP_SCENARIOS[number % 2], *sizes))
    return [named(LATENT_STEP_NAMES, each) for each in cases]


@declares_check(
    "u13-latent-step",
    latent_cases,
    observer=latent_step,
    scenarios=LATENT_STEP_SCENARIOS,
    fallback="course_utils.reference.latent_decode.latent_attention",
    give_away=("course_utils.reference.latent_decode",),
)
def measured_latent_step(**case: Any) -> dict[str, Any]:
    """Keys and values of every head made and used one by one; FLOPs of the absorbed products."""
    q_nope, q_rope, latents, rope_keys, key_up, value_up = latent_step.inputs_of(case)
    b, a, t, r, nope, rope, width = (case[name] for name in SIZES)
    out = torch.empty(b, a, width, dtype=torch.float64)
    for head in range(a):
        keys = torch.cat([latents @ key_up[:, head], rope_keys], -1)
        query = torch.cat([q_nope[:, head], q_rope[:, head]], -1)
        scores = (keys * query[:, None]).sum(-1) / (nope + rope) ** 0.5
        values = latents @ value_up[:, head]
        out[:, head] = (scores.softmax(-1)[..., None] * values).sum(1)
    right = {"checksum": checksum(out, out), "out": out}
    into_latents, scored, summed, out_of_latents = nope * r, t * (r + rope), t * r, r * width
    flops = 2 * b * a * (into_latents + scored + summed + out_of_latents)
    return right | ({"flops": flops} if case["scenario"] == "flops" else {})


# === u13-paged
# The tables of a paged cache, by a memory that is written and read back.


PAGED_SCENARIOS = ("append", "free", "share", "copy")
AMPLE = "share"  # its memory is never full
NUM_REQUESTS, A_FEW = 60, 6
BLOCK_SIZES = (4, 2, 3, 1, 5, 4)
# In blocks of two cells, and memory for four tokens where it is tight.
BY_HAND = {
    "append": ("a a a b a", "a a b c b a"),
    "free": ("a a b c -a b b a -b a c",),
    "share": ("a a a>b b -a c",),
    "copy": ("a a>b b a c -a c", "a a>b b -b a c b"),
}


def script_cases(seed: int) -> list[Case]:
    """Scripts of every scenario: short ones, then long ones; memory tight and ample."""
    rng = random.Random(seed)
    cases = [
        _case(scenario, words, len(words.split()), 0, NUM_REQUESTS if scenario == AMPLE else 2, 2)
        for scenario, scripts in BY_HAND.items()
        for words in scripts
    ]
    names = str.maketrans("abc", "".join(rng.sample(ascii_lowercase, 3)))
    cases[1:] = [case | {"begins": case["begins"].translate(names)} for case in cases[1:]]
    for scenario in PAGED_SCENARIOS:
        for number, size in enumerate(BLOCK_SIZES):
            is_tight = scenario != AMPLE and number % 2 == 0
            blocks = rng.randint(5, 8) if is_tight else NUM_REQUESTS
            of_script = rng.randint(1, 10**4)
            begins = random_script(scenario, size, NUM_REQUESTS, of_script)[:A_FEW]
            cases.append(_case(scenario, " ".join(begins), NUM_REQUESTS, of_script, blocks, size))
    return cases


def _case(scenario: str, *others: str | int) -> Case:
    """A few requests and the number of all of them, which is what a verdict shows."""
    names = ("begins", "num_requests", "seed", "num_blocks", "block_size")
    return {"scenario": scenario, **named(names, others)}


@declares_check(
    "u13-paged",
    script_cases,
    observer=paged,
    scenarios=PAGED_SCENARIOS,
    fallback="course_utils.reference.paged_cache.PagedCache",
    give_away=("course_utils.reference.paged_cache",),
)
def measured_paged(**_: Any) -> dict[str, int]:
    """No request is served wrong."""
    return {}


# === u13-touched
# The experts that a batch reads, against the distribution of their number.


TOUCHED_NAMES = ("num_experts", "experts_per_token", "num_tokens")


def batch_cases(seed: int) -> list[Case]:
    """One token and many, one expert for each and several, all experts, few and hundreds."""
    rng = random.Random(seed)
    few, many = rng.randint(3, 9), rng.randint(20, 40)
    sizes = [(8, 2, 1), (8 + few, 2, 2), (256, 8, many), (many, 1, few), (few, few, many)]
    sizes += [(2 * few, few, 2), (many, 6, 1), (few, 1, many)]
    while len(sizes) < 22:
        experts = rng.randint(5, 60)
        sizes.append((experts, rng.randint(2, min(6, experts - 1)), rng.randint(2, 25)))
    return [named(TOUCHED_NAMES, each) for each in sizes]


@declares_check(
    "u13-touched",
    batch_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.serving.expected_experts",
)
def mean_of_the_distribution(num_experts: int, experts_per_token: int, num_tokens: int) -> float:
    """The mean of how many experts are reached, followed token by token."""
    distribution = {0: 1.0}
    ways = comb(num_experts, experts_per_token)
    for _ in range(num_tokens):
        following: dict[int, float] = {}
        for reached, chance in distribution.items():
            for new in range(min(experts_per_token, num_experts - reached) + 1):
                old = experts_per_token - new
                share = comb(num_experts - reached, new) * comb(reached, old) / ways
                if share:
                    total = reached + new
                    following[total] = following.get(total, 0.0) + chance * share
        distribution = following
    return sum(reached * chance for reached, chance in distribution.items())


# === u13-accept
# The rule of speculative decoding, by the exact distribution of the token that comes out.


def pair_cases(seed: int) -> list[Case]:
    """Two tokens and more; zeros in p and in q; equal pairs, and pairs without a common token."""
    rng = random.Random(seed)
    one, two, three = rng.sample(range(1, 20), 3)
    pairs = [([3, 1], [2, 2]), ([one, 0, 0], [0, one, two])]
    pairs += [([one, two, three], [one, two, three]), ([three, two, one], [one, three, two])]
    while len(pairs) < 23:
        size = rng.randint(3, 6)
        p, q = ([rng.randint(1, 9) for _ in range(size)] for _ in range(2))
        if len(pairs) % 3 == 0:
            q[0] = 0
        if len(pairs) % 3 == 1:
            p[-1] = 0
        p[1] += sum(q)  # so that the two differ
        pairs.append((p, q))
    return [{"p": _chances(p), "q": _chances(q)} for p, q in pairs]


def _chances(weights: list[int]) -> list[str]:
    """Chances in proportion to some weights, as a student would write them: ``"3/4"``."""
    return [str(Fraction(each, sum(weights))) for each in weights]


@declares_check(
    "u13-accept",
    pair_cases,
    observer=accept,
    fallback="course_utils.reference.speculation.speculative_rule",
    give_away=("course_utils.reference.speculation",),
)
def measured_accept(p: list[str], q: list[str]) -> dict[str, Any]:
    """What comes out is p; as much of q is kept as p has room for."""
    of_p, of_q = accept.chances_of({"p": p, "q": q})
    accepted = sum(map(min, of_p, of_q), Fraction(0))
    return {"accepted": float(accepted), "checksum": float(accept.weighted(of_p))}


# === u13-speculate
# The speed of speculative decoding, against all ways in which drafts are accepted.


SPECULATE_NAMES = ("acceptance", "draft_cost", "draft_length")


def draft_cases(seed: int) -> list[Case]:
    """Drafts that never fit and always fit, free ones and expensive ones, none, one, many."""
    rng = random.Random(seed)
    chance, cost = rng.randint(60, 95) / 100, rng.randint(5, 20) / 100
    cases = [(0.5, 0.25, 2), (chance, 0.05, 4), (1.0, cost, 5), (0.0, cost, 3), (chance, 0.0, 4)]
    cases += [(chance, cost, 0), (chance, cost, 1)]
    while len(cases) < 22:
        acceptance, cost = rng.randint(20, 95) / 100, rng.randint(2, 40) / 100
        cases.append((acceptance, cost, rng.randint(2, 12)))
    return [named(SPECULATE_NAMES, each) for each in cases]


@declares_check(
    "u13-speculate",
    draft_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.serving.speculation",
)
def enumerated(acceptance: float, draft_cost: float, draft_length: int) -> dict[str, float]:
    """Tokens of each outcome with its chance: the first rejection, or none."""
    tokens, chance = 0.0, 1.0
    for accepted in range(draft_length):
        tokens += chance * (1 - acceptance) * (accepted + 1)
        chance *= acceptance
    tokens += chance * (draft_length + 1)
    seconds = 1.0
    for _ in range(draft_length):
        seconds += draft_cost
    return {"tokens": tokens, "speedup": tokens / seconds}


# === u13-capacity
# What a capacity of experts loses, against queues of first, second, … choices.


CAPACITY_NAMES = ("choices", "num_experts", "capacity")


def routing_cases(seed: int) -> list[Case]:
    """Even and crowded choices, one choice and several, one place for each expert up to enough."""
    rng = random.Random(seed)
    cases = [
        ([[0, 1], [0, 1], [0, 2]], 3, 1),
        ([[2], [2], *([rng.randrange(3)] for _ in range(4))], 3, 2),
    ]
    for number in range(20):
        experts, chosen = rng.randint(4, 8), 1 + (number + 2) % 3
        crowd = [5 if number % 2 and each < 2 else 1 for each in range(experts)]
        choices = [_choice(rng, crowd, chosen) for _ in range(rng.randint(6, 14))]
        even = -(-len(choices) * chosen // experts)
        capacity = (1, even, 2 * even, len(choices))[number // 5]
        cases.append((choices, experts, capacity))
    return [named(CAPACITY_NAMES, each) for each in cases]


def _choice(rng: random.Random, weights: list[int], num_chosen: int) -> list[int]:
    """Different experts, the crowded ones more often."""
    left = list(range(len(weights)))
    chosen = []
    for _ in range(num_chosen):
        chosen.append(rng.choices(left, [weights[each] for each in left])[0])
        left.remove(chosen[-1])
    return chosen


@declares_check(
    "u13-capacity", routing_cases, fallback="course_utils.formulas.serving.capacity_losses"
)
def queued(choices: list[list[int]], num_experts: int, capacity: int) -> dict[str, int]:
    """One queue for each expert, all choices in order; what is behind its places is lost."""
    in_order = sorted(
        (rank, token, expert)
        for token, experts in enumerate(choices)
        for rank, expert in enumerate(experts)
    )
    queues = [[token for _, token, each in in_order if each == n] for n in range(num_experts)]
    served = {token for queue in queues for token in queue[:capacity]}
    return {
        "dropped": sum(len(queue[capacity:]) for queue in queues),
        "lost_tokens": len(choices) - len(served),
        "empty_places": sum(capacity - len(queue[:capacity]) for queue in queues),
    }
