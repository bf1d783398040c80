"""The checks of unit 02: what does your code wait for?"""

import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import torch

from autograder.checking.case_objects import model_of
from autograder.checking.exercise_check import Case, named
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import declares_check
from autograder.exercises.model_sizes import preset_sizes
from autograder.observers.u02 import fuse, repair_generate
from autograder.observers.u02.fuse import ENOUGH, inputs_of
from autograder.observers.u02.repair_generate import SCENARIOS, setup_of
from course_utils.configs import DEVICES as DEVICES_of_configs
from course_utils.configs import device
from course_utils.formulas.parameters import parameters
from course_utils.instruments import MovedBytes, count_bytes, fake_tensors
from course_utils.records.traces import recorded_trace
from course_utils.reference import Transformer
from course_utils.reference.generation import Cache, hidden_states
from course_utils.traces import GPU_WORK, Event, made, select

# === u02-profile
# What is read from a profiler's table.


PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
INSIDE = {  # what calls them, from the outside in
    "aten::mm": ("aten::linear", "aten::matmul"),
    "aten::addmm": ("aten::linear",),
    "aten::bmm": ("aten::matmul",),
}
OTHERS = ("aten::mul", "aten::silu", "aten::add", "aten::_softmax", "aten::sum", "aten::cumsum")


def table_cases(seed: int) -> list[Case]:
    """Tables with and without biases and batches; operators that call others, in any order.

    The second has the smallest share of products, so that feedback shows a short one.
    """
    rng = random.Random(seed)
    worked = [
        _row("aten::mm", 3, 70, 75),
        _row("aten::linear", 3, 5, 85),
        _row("aten::matmul", 3, 5, 80),
        _row("aten::empty", 3, 5, 5),
        _row("aten::mul", 4, 15, 15),
    ]
    others = rng.randint(2400, 2600)
    short = [
        _row("aten::bmm", 1, 3, 4),
        _row("aten::matmul", 1, 2, 6),
        _row("aten::empty", 1, 1, 1),
        _row("aten::mul", 9, others, others),
    ]
    kinds = [("aten::mm",), PRODUCTS, ("aten::addmm", "aten::bmm"), ("aten::bmm", "aten::mm"), ()]
    return [
        {"rows": worked},
        {"rows": short},
        *({"rows": _table(rng, kinds[n % 5])} for n in range(22)),
    ]


def _row(operator: str, calls: int, own_us: int, total_us: int) -> dict[str, Any]:
    return {"operator": operator, "calls": calls, "own_us": own_us, "total_us": total_us}


def _table(rng: random.Random, products: tuple[str, ...]) -> list[dict[str, Any]]:
    """A profile of made-up calls: each product inside of what calls it, with a small one inside.

    Other operators run outside of all that.
    """
    sums: dict[str, list[int]] = {}

    def add(operator: str, calls: int, own_us: int, total_us: int) -> None:
        row = sums.setdefault(operator, [0, 0, 0])
        sums[operator] = [a + b for a, b in zip(row, (calls, own_us, total_us), strict=True)]

    for product in products:
        calls, own, inner = rng.randint(2, 99), rng.randint(100, 9000), rng.randint(3, 60)
        add("aten::empty", calls, inner, inner)
        total = own + inner
        add(product, calls, own, total)
        for outer in reversed(INSIDE[product]):
            own = rng.randint(5, 80)
            total += own
            add(outer, calls, own, total)
        if rng.random() < 0.5:
            total += 7
            add(
                f"autograd::engine::evaluate_function: {product[6:].title()}Backward0",
                calls,
                7,
                total,
            )
    own = rng.randint(5, 50)
    add("forward", 1, own, own + sum(row[1] for row in sums.values()))
    for operator in rng.sample(OTHERS, 4):
        own = rng.randint(10, 3000)
        add(operator, rng.randint(1, 200), own, own)
    rows = [_row(name, *numbers) for name, numbers in sums.items()]
    return rng.sample(rows, len(rows))


@declares_check(
    "u02-profile",
    table_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.instruments.profiling.products_in",
    give_away=("course_utils.instruments.profiling",),
)
def read_with_pandas(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The same two numbers from a data frame."""
    table = pd.DataFrame(rows).set_index("operator")
    products = table.loc[table.index.isin(PRODUCTS)]
    share = 1 - table.drop(products.index).own_us.sum() / table.own_us.sum()
    return {"calls": int(products.calls.sum()), "share": float(share)}


# === u02-waits
# What a GPU waited for, in parts of recorded traces and in made ones.


# Of recorded traces: name, phase, GPU events in a case, and waits that must occur in it.
WINDOWS = (
    ("h100_bert_small_forward", "*", 7, ("launches", "queued")),
    ("a100_gpt_small_step_fp32", "optimizer", 30, ("launches", "queued")),
    ("v100_resnet50_dataloader", "workers=0", 30, ("loader", "launches")),
    ("h100_qwen05b_forward", "*", 40, ("queued",)),
    ("h100x8_nanogpt_before", "*", 40, ("overlap",)),
    ("b200x8_vllm_gptoss_prefill", "*", 30, ("launches", "queued")),
)
MADE_WAITS = ("busy", "overlap", "loader", "launches", "queued")
FEWEST_NS = {"overlap": 40, "busy": 400}  # of others 200: a case shows what it is drawn for
LOADERS = ("DataLoader.__next__", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")


def trace_cases(seed: int) -> list[Case]:
    """Parts of recorded traces, each at another moment; then a CPU and two streams, played.

    In the parts: launches that lead by nothing and by 60 ms, launches that are not recorded,
    operators that nest, ranges on the GPU. In the made ones: streams at once, loaders that load
    while kernels still run, copies, rows in any order. The last ones have a launch at 0, and a
    loader's range that the profiler draws on the GPU.
    """
    rng = random.Random(seed)
    cases: list[Case] = [{"events": _by_hand()}]
    for window in WINDOWS * 2:
        draw = functools.partial(_window, rng, *window[:3])
        cases.append({"events": _drawn(draw, window[3])})
    for number in range(12):
        events = _drawn(functools.partial(_played, rng), MADE_WAITS)
        cases.append({"events": rng.sample(events, len(events)) if number % 3 else events})
    for special in (_from_a_launch, _with_a_loader_on_the_gpu) * 2:
        events = special(rng)
        cases.append({"events": rng.sample(events, len(events))})
    return cases


def _by_hand() -> list[Event]:
    spans = ((0, 10, 30), (15, 32, 40), (60, 70, 80))
    kernels = [
        made(lane="gpu:7", name="gemm", start_ns=start, end_ns=end, launch_ns=launch)
        for launch, start, end in spans
    ]
    loading = made(lane="cpu", kind="range", name=LOADERS[0], start_ns=25, end_ns=55)
    return [*kernels, loading]


def _drawn(draw: Callable[[], list[Event]], wanted: tuple[str, ...]) -> list[Event]:
    """The first draw in which each of some waits takes a while."""

    def is_wanted(events: list[Event]) -> bool:
        found = _swept(events)
        return all(found[name] >= FEWEST_NS.get(name, 200) for name in wanted)

    return next(filter(is_wanted, iter(draw, None)))


def _window(rng: random.Random, name: str, phase: str, most: int) -> list[Event]:
    """Some of a trace's GPU events in a row, what the CPU did meanwhile, at any time of the day.

    What a record rounds to no time at all is left out: a first event has a start and an end.
    """
    events = select(recorded_trace(name), phase=(phase, ""))
    events = [each for each in events if each["end_ns"] > each["start_ns"]]
    work = sorted(select(events, kind=GPU_WORK), key=lambda each: each["start_ns"])
    first = rng.randrange(len(work) - most)
    chosen = work[first : first + rng.randint(most * 2 // 3, most)]
    start, end = chosen[0]["start_ns"], max(each["end_ns"] for each in chosen)
    beside = [
        each
        for each in events
        if each["kind"] not in GPU_WORK and each["start_ns"] < end and each["end_ns"] > start
    ]
    shift = rng.randint(1, 10**6) * 1000 - start
    return [_moved(each, shift) for each in (*beside, *chosen)]


def _moved(event: Event, shift: int) -> Event:
    launch_ns = event["launch_ns"]
    return event | {
        "start_ns": event["start_ns"] + shift,
        "end_ns": event["end_ns"] + shift,
        "launch_ns": None if launch_ns is None else launch_ns + shift,
    }


def _played(rng: random.Random) -> list[Event]:
    """A CPU that loads and launches in turn, and two streams that run what is queued, in order."""
    now, free, events = rng.randint(1, 10**6), {"gpu:7": 0, "gpu:13": 0}, list[Event]()
    latency = rng.randint(30, 90)

    def add(
        lane: str, kind: str, name: str, span_ns: tuple[int, int], launch_ns: int | None = None
    ) -> None:
        events.append(made(0, lane, kind, name, *span_ns, launch_ns=launch_ns))

    for _ in range(rng.randint(2, 3)):
        begin, load = now, rng.randint(500, 4000)
        for name in rng.sample(LOADERS, rng.randint(1, 2)):  # one may call the other
            add("cpu", "range", name, (now, now + load))
        now += load
        for _ in range(rng.randint(4, 8)):
            python, call = rng.choice((10, 40, 600)) + rng.randint(0, 50), rng.randint(5, 20)
            add("cpu", "cpu_op", "aten::mm", (now, now + python + call))
            now += python
            lane, kind = rng.choice((*free, "gpu:7")), rng.choice(("kernel", "kernel", "memcpy"))
            start = max(now + latency, free[lane])
            free[lane] = start + rng.randint(20, 900)
            add(lane, kind, "gemm", (start, free[lane]), now)
            add("cpu", "launch", "cudaLaunchKernel", (now, now + call))
            now += call
        end = max(now, *free.values()) if rng.random() < 0.5 else now
        add("cpu", "sync", "cudaStreamSynchronize", (now, end + 5))
        now = end + 5
        add("gpu", "range", "ProfilerStep#3", (begin, now))  # drawn there by the profiler
    return events


def _from_a_launch(rng: random.Random) -> list[Event]:
    """Played events whose zero is a launch; without it both waits for the CPU would be longer."""
    while True:
        events = _drawn(functools.partial(_played, rng), MADE_WAITS)
        found = _swept(events)
        for number, each in enumerate(events):
            unknown = each | {"launch_ns": None}
            without = _swept([*events[:number], unknown, *events[number + 1 :]])
            if each["launch_ns"] and all(without[n] > found[n] for n in ("loader", "launches")):
                return [_moved(other, -each["launch_ns"]) for other in events]


def _with_a_loader_on_the_gpu(rng: random.Random) -> list[Event]:
    """Played events, and the loader's name on the GPU's lane all the while."""
    events = _drawn(functools.partial(_played, rng), MADE_WAITS)
    start, end = (limit(each["start_ns"] for each in events) for limit in (min, max))
    return [*events, made(0, "gpu", "range", LOADERS[0], start, end)]


def _swept(events: list[Event]) -> dict[str, int]:
    """Nanoseconds by what is going on: moment after moment, with counts of what is open."""
    changes: dict[int, Counter[str]] = {}
    for each in events:
        for what, begin, end in _open(each):
            changes.setdefault(begin, Counter())[what] += 1
            changes.setdefault(end, Counter())[what] -= 1
    work = [each for each in events if each["kind"] in GPU_WORK]
    first, last = min(e["start_ns"] for e in work), max(e["end_ns"] for e in work)
    now, found = Counter[str](), Counter[str]()
    for moment, until in itertools.pairwise(sorted(changes)):
        now.update(changes[moment])
        if first <= moment < last:
            found[_state(now)] += until - moment
            found["overlap"] += (until - moment) * (now["running"] > 1)
    return found


def _open(event: Event) -> Iterator[tuple[str, int, int]]:
    """What an event is, from when to when: a kernel is in the queue before it runs."""
    start, end, launch = event["start_ns"], event["end_ns"], event["launch_ns"]
    if event["kind"] in GPU_WORK:
        yield "running", start, end
        if launch is not None:
            yield "queued", launch, start
    elif event["lane"].startswith("cpu") and "DataLoader" in event["name"]:
        yield "loading", start, end


def _state(now: Counter[str]) -> str:
    if now["running"]:
        return "busy"
    if now["queued"]:
        return "queued"
    return "loader" if now["loading"] else "launches"


@declares_check(
    "u02-waits",
    trace_cases,
    relative_tolerance=PROMISED,
    labels={
        "busy": "nanoseconds in which something ran",
        "loader": "nanoseconds of waiting for the loader",
        "launches": "nanoseconds of waiting for launches",
        "at_best": "times as fast at best",
    },
    fallback="course_utils.instruments.waits.gpu_waits",
    give_away=("course_utils.instruments.waits",),
)
def swept(events: list[Event]) -> dict[str, float]:
    """The parts of a sweep over all moments at which something begins or ends."""
    found = _swept(events)
    whole = sum(found[name] for name in ("busy", "queued", "loader", "launches"))
    return {
        "busy": float(found["busy"]),  # as `length` is
        "loader": float(found["loader"]),
        "launches": float(found["launches"]),
        "at_best": whole / (found["busy"] + found["loader"]),
    }


# === for several exercises
# What would answer exercises of this unit, and sizes for their cases.


# What counts the bytes of operations, or has the formulas by other names.
COUNTERS = ("course_utils.instruments.moved_bytes", "course_utils.formulas.roofline")

LLAMA_8B = preset_sizes("Llama-3-8B")
HEADS = ((4, 4, 6), (6, 2, 4), (8, 1, 4), (6, 3, 10), (4, 2, 2))  # a, a_kv, d


def just_above(power: int, rng: random.Random) -> int:
    """An odd size a little larger than a power of two, whose products no float holds."""
    return int(2**power + rng.randrange(1, 511, 2))


def small_model(rng: random.Random, number: int) -> dict[str, Any]:
    """A small Llama: own or shared keys, heads as wide as the model, wider, narrower."""
    heads, kv_heads, head_dim = HEADS[number % len(HEADS)]
    return {
        "num_layers": rng.randint(2, 3),
        "hidden_size": rng.choice((16, 24, 32)),
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": head_dim,
        "ffn_size": rng.randrange(17, 71, 2),
        "vocab_size": rng.randrange(201, 399, 2),
    }


# === u02-product-bytes
# The bytes that a matrix product must move.


DTYPES = {1: torch.float8_e4m3fn, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}


def product_cases(seed: int) -> list[Case]:
    """Formats of one to eight bytes; one row, many rows, a layer of a real model.

    The last two counts are beyond 32 bits and beyond what a float holds.
    """
    rng = random.Random(seed)

    def case(rows: int, inner: int, columns: int, element_bytes: int) -> Case:
        return {
            "rows": rows,
            "inner": inner,
            "columns": columns,
            "element_bytes": element_bytes,
        }

    cases = [case(7, 3, 5, 2), case(rng.randint(2, 99), 3, 5, 4)]
    cases.append(case(1, 4096, 64 * rng.randint(99, 300), 2))
    for element_bytes in DTYPES:
        for rows in (1, rng.randrange(3, 99, 2), 8192):
            inner, columns = (rng.randrange(5, 999, 2) for _ in range(2))
            cases.append(case(rows, inner, columns, element_bytes))
        cases.append(case(rng.randrange(3, 99), 1, rng.randrange(5, 99), element_bytes))
    cases.append(case(rng.randint(2, 64) * 1024, 8192, 28672, 2))
    return [*cases, case(just_above(16, rng), just_above(26, rng), just_above(27, rng), 1)]


@declares_check(
    "u02-product-bytes",
    product_cases,
    fallback="course_utils.formulas.roofline.product_bytes",
    give_away=COUNTERS,
)
def moved_bytes(rows: int, inner: int, columns: int, element_bytes: int) -> int:
    """What the instrument counts while the product runs on the meta device."""
    dtype = DTYPES[element_bytes]
    a = torch.empty(rows, inner, device="meta", dtype=dtype)
    b = torch.empty(inner, columns, device="meta", dtype=dtype)
    return count_bytes(lambda: a @ b).num_bytes


# === u02-roofline-seconds
# The seconds that operations take at the roof.


def operation_cases(seed: int) -> list[Case]:
    """One operation and many; compute-bound, bandwidth-bound, mixed; some without FLOPs."""
    rng = random.Random(seed)
    worked = [[2 * 10**9, 4 * 10**6], [0, 5 * 10**8], [3 * 10**10, 2 * 10**8]]
    cases = [
        _roofline_seconds_case(worked, 10**12, 10**11),
        _roofline_seconds_case([], rng.randint(1, 999) * 10**12, 10**11),
    ]
    for number in range(20):
        hardware = list(DEVICES_of_configs.values())[number % len(DEVICES_of_configs)]
        peak = hardware.dense_flops_per_second("bf16")
        bandwidth = hardware.bandwidth_bytes_per_second
        operations = [
            [rng.randint(0, 9) * rng.randint(1, 10**12), rng.randint(1, 10**10)]
            for _ in range((1, 2, 5, 30)[number % 4])
        ]
        operations[0][0] = 0 if number % 4 == 3 else operations[0][0] + 1
        cases.append(_roofline_seconds_case(operations, peak, bandwidth))
    balanced = [[3 * 10**6 * n, 10**6 * n] for n in range(1, rng.randint(3, 9))]
    left_of_it = [[7 * 10**6 * n, 2 * 10**6 * n] for n in range(1, rng.randint(3, 9))]
    cases.append(
        _roofline_seconds_case(left_of_it, 37 * 10**8, 10**9)
    )  # 3.5 FLOP/B, with a ridge at 3.7
    return [*cases, _roofline_seconds_case(balanced, 3 * 10**9, 10**9)]


def _roofline_seconds_case(operations: list[list[int]], peak: int, bandwidth: int) -> Case:
    return {
        "operations": operations,
        "flops_per_second": peak,
        "bytes_per_second": bandwidth,
    }


@declares_check(
    "u02-roofline-seconds",
    operation_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.roofline.roofline_seconds",
    give_away=COUNTERS,
)
def played(operations: list[list[int]], flops_per_second: int, bytes_per_second: int) -> float:
    """The end of the last operation, each started when the one before it is through."""
    now = Fraction(0)
    for flops, num_bytes in operations:
        computed = now + Fraction(flops, flops_per_second)
        moved = now + Fraction(num_bytes, bytes_per_second)
        now = max(computed, moved)
    return float(now)


# === u02-step-bytes
# The bytes of weights and cache that a step moves.


PHASES = ("prefill", "decode", "train")
WORKED = {
    "num_layers": 1,
    "hidden_size": 4,
    "num_heads": 2,
    "num_kv_heads": 1,
    "head_dim": 2,
    "ffn_size": 5,
    "vocab_size": 50,
}


def step_cases(seed: int) -> list[Case]:
    """Every phase with one sequence and with several; own and shared keys, heads of any width.

    The last counts are beyond what a float holds, and none of their numbers is small.
    """
    rng = random.Random(seed)
    cases = [_step_bytes_case(WORKED, 2, 3, "decode")]
    for number in range(24):
        num_sequences = (1, rng.randint(2, 5))[number // 3 % 2]
        model = small_model(rng, number // 3)
        cases.append(
            _step_bytes_case(model, num_sequences, rng.randrange(3, 39, 2), PHASES[number % 3])
        )
    wide = WORKED | {
        "hidden_size": just_above(26, rng),
        "ffn_size": just_above(26, rng),
        "num_heads": 64,
        "num_kv_heads": 32,
        "vocab_size": 997,
    }
    return [*cases, *(_step_bytes_case(wide, 9, 99, phase) for phase in PHASES)]


def _step_bytes_case(model: dict[str, Any], num_sequences: int, seq_len: int, phase: str) -> Case:
    return {
        "model": model,
        "num_sequences": num_sequences,
        "seq_len": seq_len,
        "phase": phase,
    }


def moved_by(
    model: dict[str, Any], num_sequences: int, seq_len: int, phase: str
) -> tuple[MovedBytes, int]:
    """What a step moves, and the bytes of all weights and of the cache."""
    built = Transformer(model_of(model), dtype=torch.bfloat16)
    ids = torch.zeros(num_sequences, 1 if phase == "decode" else seq_len, dtype=torch.long)
    of_weights = sum(each.nbytes for each in built.parameters())
    if phase == "train":
        step = count_bytes(lambda: built(ids).sum().backward(), weights=built.parameters())
        return step, of_weights
    cache = Cache(built, num_sequences, seq_len + 1)
    cache.length = seq_len if phase == "decode" else 0
    with torch.no_grad():
        step = count_bytes(
            lambda: built.head(hidden_states(built, ids, cache)[:, -1]),
            weights=built.parameters(),
            cache=cache.tensors,
        )
    return step, of_weights + sum(each.nbytes for each in cache.tensors)


@declares_check(
    "u02-step-bytes",
    step_cases,
    labels={
        "weights": "the bytes of weights",
        "cache_read": "the bytes read from the cache",
        "cache_written": "the bytes written to the cache",
    },
    fallback="course_utils.formulas.roofline.step_bytes",
    give_away=COUNTERS,
)
def counted(model: dict[str, Any], num_sequences: int, seq_len: int, phase: str) -> dict[str, int]:
    """The same bytes, by whose storage they are, counted while the step runs on fake tensors."""
    with fake_tensors():
        moved, _ = moved_by(model, num_sequences, seq_len, phase)
    weights, cache = moved.of("weights"), moved.of("cache")
    if weights.written_bytes:
        raise RuntimeError(f"a step of {model} writes weights")
    return {
        "weights": weights.read_bytes,
        "cache_read": cache.read_bytes,
        "cache_written": cache.written_bytes,
    }


# === u02-fuse
# Attention weights made with two operations: right results, few bytes moved.


def score_cases(seed: int) -> list[Case]:
    """With a causal bias and without, scores in one piece or not, recorded or not, any scale.

    Rows are long, so that one number per row weighs little.
    """
    rng = random.Random(seed)
    cases = [_fuse_case([1, 2, 16, 64], 0.5)]
    for number in range(20):
        is_transposed = number % 5 == 1
        batch = 2 if is_transposed else rng.randint(1, 2)
        shape = [batch, rng.randint(4, 6), rng.randint(3, 8), rng.randint(40, 90)]
        cases.append(
            _fuse_case(
                shape,
                rng.choice((0.125, 0.3, 2.0)),
                is_causal=number % 2 == 0,
                is_transposed=is_transposed,
                is_recording=number % 3 == 0,
            )
        )
    return cases


def _fuse_case(shape: list[int], scale: float, **flags: bool) -> Case:
    none = dict.fromkeys(("is_causal", "is_transposed", "is_recording"), False)
    return {"shape": shape, "scale": scale, **none, **flags}


@declares_check(
    "u02-fuse",
    score_cases,
    observer=fuse,
)
def measured_fuse(**case: Any) -> dict[str, Any]:
    """The weights by their definition, in numpy; how little is little enough."""
    scores, bias, scale = inputs_of(case)
    x = scale * scores.numpy() + bias.numpy()
    exponents = np.exp(x - x.max(axis=3, keepdims=True))
    weights = torch.from_numpy(exponents / exponents.sum(axis=3, keepdims=True))
    return {"times_moved": ENOUGH, "weights": weights}


# === u02-repair-generate
# A loop that generates tokens without waste: the same tokens, for less.


def generation_cases(seed: int) -> list[Case]:
    """Each scenario with one sequence and several, a short prompt and a long one, one new token."""
    rng = random.Random(seed)
    cases = []
    for number in range(20):
        batch, prompt, new = (
            (2, 6, 5),
            (1, rng.randint(2, 9), rng.randint(3, 6)),
            (rng.randint(2, 4), rng.randint(9, 14), rng.randint(3, 5)),
            (rng.randint(2, 3), 1, rng.randint(2, 5)),
        )[number // 5]
        model = small_model(rng, number // 5) | {"num_layers": 2}
        cases.append(
            {
                "scenario": SCENARIOS[number % 5],
                "model": model,
                "num_sequences": batch,
                "seq_len": prompt,
                "num_new": new,
                "is_training": number // 5 % 2 == 0,
            }
        )
    return cases


@declares_check(
    "u02-repair-generate",
    generation_cases,
    observer=repair_generate,
    scenarios=SCENARIOS,
    fallback="course_utils.reference.generation.generate",
    give_away=("course_utils.reference.generation.generate",),
    allowed_names=(
        "course_utils.reference.generation.Cache",
        "course_utils.reference.generation.hidden_states",
        "course_utils.reference.transformer.Transformer",
    ),
)
def measured_repair_generate(**case: Any) -> dict[str, Any]:
    """The most likely tokens by the whole model, which sees all of them every time."""
    model, tokens, num_new = setup_of(case)
    with torch.no_grad():
        for _ in range(num_new):
            likely = model(tokens)[:, -1].argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, likely], dim=1)
    b, s = case["num_sequences"], case["seq_len"]
    wanted = {
        "layers": {"positions": b * (s + num_new - 1), "times_cached": 1},
        "head": {"head_positions": b * num_new},
        "logits": {"logits_moved": 1},
    }
    return {"tokens": tokens, **wanted.get(case["scenario"], {})}


# === u02-fewest-tokens
# The fewest tokens with which a product reaches the ridge.


ROOM = 2**60  # more rows than any case needs
REAL = ((2048, 2048), (4096, 14336), (8192, 28672))


def _case(inner: int, columns: int, element_bytes: int, peak: int, bandwidth: int) -> Case:
    return {
        "inner": inner,
        "columns": columns,
        "element_bytes": element_bytes,
        "flops_per_second": peak,
        "bytes_per_second": bandwidth,
    }


def token_cases(seed: int) -> list[Case]:
    """Real devices and layers in several formats; layers too small, or just wide enough.

    In three cases a ridge is met exactly, and floats come out above the whole number, however the
    formula is written; in one the intensity tends to the ridge itself, and so never reaches it.
    """
    rng = random.Random(seed)

    cases = [_case(4, 6, 2, 20, 10)]
    for name in ("A100-80", "H100-SXM", "H200", "B200"):
        each, real = DEVICES_of_configs[name], _real(rng)
        bandwidth, peak = each.bandwidth_bytes_per_second, each.dense_flops_per_second("bf16")
        small = 64 * rng.randint(6, 9)
        cases += [_case(*sizes, 2, peak, bandwidth) for sizes in (*real[1:], (small, small))]
        cases.append(_case(*rng.choice(real), 4, each.dense_flops_per_second("fp32"), bandwidth))
    fp8 = DEVICES_of_configs["H100-SXM"].dense_flops_per_second("fp8")
    cases += [_case(*sizes, 1, fp8, 3350 * 10**9) for sizes in _real(rng)]
    for element_bytes in (1, 2, 4):
        inner, columns = rng.randrange(300, 3000, 2), rng.randrange(301, 3000, 2)
        cases.append(_case(inner, columns, element_bytes, rng.randint(20, 60), rng.randint(5, 9)))
    size = 2 ** rng.randint(6, 9)
    cases.append(_case(size, size, 2, 10**9 * size, 2 * 10**9))  # tends to its ridge, size / 2
    rate = rng.randint(1, 99) * 10**6
    cases.append(_case(2049, 2049, 2, 2049 * 127 * rate, 256 * rate))  # more than 100,000 rows
    return [*cases, *(_met_exactly(rng) for _ in range(3))]


def _real(rng: random.Random) -> list[tuple[int, int]]:
    """Layers of real models, on one device or cut for several."""
    return [(64 * rng.randint(inner // 96, inner // 64), columns) for inner, columns in REAL]


def _met_exactly(rng: random.Random) -> Case:
    """A device whose ridge is the intensity of a product of a whole number of rows."""
    while True:
        rows, inner, columns = (rng.randrange(31, 4000, 2) for _ in range(3))
        element_bytes = rng.choice((1, 2, 4))
        elements = rows * inner + inner * columns + rows * columns
        peak, bandwidth = 2 * rows * inner * columns * 10**4, element_bytes * elements * 10**4
        case = _case(inner, columns, element_bytes, peak, bandwidth)
        if min(_rows_in_floats(**case)) > rows:
            return case


def _rows_in_floats(
    inner: int, columns: int, element_bytes: int, flops_per_second: int, bytes_per_second: int
) -> tuple[float, float, float]:
    """The rows at which a ridge is met, in floats: each way of writing it rounds differently."""
    ridge_bytes = flops_per_second / bytes_per_second * element_bytes
    return (
        ridge_bytes * inner * columns / (2 * inner * columns - ridge_bytes * (inner + columns)),
        1 / (2 / ridge_bytes - 1 / inner - 1 / columns),
        ridge_bytes / (2 - ridge_bytes * (1 / inner + 1 / columns)),
    )


@declares_check(
    "u02-fewest-tokens",
    token_cases,
    fallback="course_utils.formulas.roofline.fewest_tokens",
    give_away=COUNTERS,
)
def searched(
    inner: int, columns: int, element_bytes: int, flops_per_second: int, bytes_per_second: int
) -> int | float:
    """By bisection over whole numbers of rows, each compared in whole numbers."""

    def reaches(rows: int) -> bool:
        elements = rows * inner + inner * columns + rows * columns
        flops = 2 * rows * inner * columns
        return flops * bytes_per_second >= flops_per_second * element_bytes * elements

    if not reaches(ROOM):
        return math.inf
    low, high = 0, ROOM
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


# === u02-decode-bound
# The tokens per second that decoding can reach.


FOUR_LAYERS = LLAMA_8B | {"num_layers": 4}
NARROW = preset_sizes("Llama-3.2-1B") | {"num_layers": 3}
MULTI_HEAD = NARROW | {"num_kv_heads": 32, "head_dim": 80}
MODELS = (FOUR_LAYERS, NARROW, MULTI_HEAD)
DECODE_BOUND_DEVICES = ("A100-80", "H100-SXM", "H200", "A100-40")


def bound_cases(seed: int) -> list[Case]:
    """Memory-bound and compute-bound; short and long contexts; caches that do not fit.

    Batches on both sides of what memory holds: one sequence more and two, which is what the
    embedding's room would take.
    """
    rng = random.Random(seed)
    cases = [
        _decode_bound_case(WORKED, "A100-80", 2, 3),
        _decode_bound_case(LLAMA_8B, "A100-80", 1, rng.randint(200, 300)),
    ]
    for model, name in ((FOUR_LAYERS, rng.choice(DECODE_BOUND_DEVICES)), (MULTI_HEAD, "A100-80")):
        context = _telling_context(rng, model, name)
        most = _most_sequences(model, name, context)
        cases += [
            _decode_bound_case(model, name, n, context)
            for n in (most, most + 1, most + 2, most + 14)
        ]
    cases += [
        _decode_bound_case(NARROW, each, 1024, rng.randint(50, 70)) for each in DECODE_BOUND_DEVICES
    ]
    for number in range(12):
        batch = (1, rng.randint(2, 16), rng.randint(17, 64))[number // 3 % 3]
        context = rng.choice((1, 255, 1000)) * rng.randint(1, 4)
        cases.append(
            _decode_bound_case(MODELS[number % 3], DECODE_BOUND_DEVICES[number % 4], batch, context)
        )
    return [*cases, _decode_bound_case(MULTI_HEAD, "H100-SXM", rng.randint(300, 500), 32768)]


def _most_sequences(model: dict[str, Any], hardware: str, context: int) -> int:
    """How many sequences fit, each with its cache of the context and of the new token."""
    sizes = model_of(model)
    of_parameters = 2 * sum(parameters(sizes).values())
    cached = sizes.num_layers * sizes.num_kv_heads * sizes.head_dim * (context + 1)
    return (device(hardware).memory_bytes - of_parameters) // (2 * 2 * cached)


def _telling_context(rng: random.Random, model: dict[str, Any], hardware: str) -> int:
    """One that leaves no room for the new token of one sequence more."""
    while True:
        context = rng.randint(7000, 8192)
        if _most_sequences(model, hardware, context) < _most_sequences(
            model, hardware, context - 1
        ):
            return context


def _decode_bound_case(
    model: dict[str, Any], hardware: str, num_sequences: int, context: int
) -> Case:
    return {
        "model": model,
        "hardware": hardware,
        "num_sequences": num_sequences,
        "context": context,
    }


@declares_check(
    "u02-decode-bound",
    bound_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.roofline.decode_tokens_per_second",
    give_away=COUNTERS,
)
def counted_rate(model: dict[str, Any], hardware: str, num_sequences: int, context: int) -> float:
    """From bytes and FLOPs that are counted while one step of decoding runs on fake tensors."""
    chip = device(hardware)
    with fake_tensors():
        moved, held_bytes = moved_by(model, num_sequences, context, "decode")
    if held_bytes > chip.memory_bytes:
        return 0.0
    num_bytes = sum(sum(moved.of(owner)) for owner in ("weights", "cache"))
    seconds = max(
        moved.flops / chip.dense_flops_per_second("bf16"),
        num_bytes / chip.bandwidth_bytes_per_second,
    )
    return num_sequences / seconds


# === u02-loader
# The time of an epoch whose batches are loaded by workers.


NAMES = ("load_ms", "step_ms", "num_workers", "num_batches")


def epoch_cases(seed: int) -> list[Case]:
    """Loading faster than a step, slower, and hidden by some workers; batches left over."""
    rng = random.Random(seed)
    sizes = [(3, 2, 1, 3), (7, 2, 3, rng.randint(4, 40)), (5, 2, 2, rng.randint(4, 40))]
    sizes += [(rng.randint(1, 9), rng.randint(10, 50), 1, rng.randint(1, 30)) for _ in range(4)]
    sizes += [(rng.randint(50, 99), rng.randint(3, 9), w, rng.randint(5, 60)) for w in range(1, 7)]
    for _ in range(6):  # the step is a little longer or shorter than a worker's share
        workers, step = rng.randint(2, 6), rng.randint(5, 20)
        load = workers * step + rng.choice((-2, -1, 0, 1, 2))
        sizes.append((load, step, workers, rng.randint(10, 50)))
    sizes += [(rng.randint(20, 50), rng.randint(1, 50), 9, rng.randint(1, 8)) for _ in range(3)]
    sizes += [(120, 40, workers, rng.randint(50, 150)) for workers in (1, 2, 4)]
    return [named(NAMES, each) for each in sizes]


@declares_check(
    "u02-loader",
    epoch_cases,
    relative_tolerance=PROMISED,
    fallback="course_utils.formulas.roofline.epoch_seconds",
    give_away=("course_utils.formulas.roofline",),
)
def simulated(load_ms: int, step_ms: int, num_workers: int, num_batches: int) -> int:
    """Each worker makes its batches one after the other; steps take them in order."""
    free, now = [0] * num_workers, 0
    for batch in range(num_batches):
        free[batch % num_workers] += load_ms
        now = max(now, free[batch % num_workers]) + step_ms
    return now
