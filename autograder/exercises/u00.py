"""The checks of unit 00: start here."""

import operator
import random
from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate

import torch

from autograder.checking.exercise_check import Case, named
from autograder.checking.precision import PROMISED
from autograder.exercises.declaring import declares_check
from course_utils.instruments import storage_bytes

# === u00-tensor-bytes
# The bytes of a tensor.


DTYPES = {4: torch.float32, 2: torch.bfloat16, 8: torch.float64, 1: torch.bool}


def tensor_cases(seed: int) -> list[Case]:
    """Zero to four axes, an empty one, equal ones; more bytes than 32 bits hold, or a float."""
    rng = random.Random(seed)

    def sizes(count: int) -> tuple[int, ...]:
        return tuple(rng.randint(2, 97) for _ in range(count))

    square = sizes(1) * 2
    shapes = [(1,) * rng.randint(5, 40), (0, *sizes(1)), square, (1, *sizes(2)), sizes(4)]
    shapes += [(rng.randint(5, 60), 4096, 128256)]
    shapes += [tuple(2**19 + rng.randrange(1, 64, 2) for _ in range(3))]
    several = [sizes(1), sizes(2), sizes(3)]
    return [
        {"shape": (2, 3), "element_bytes": 4},
        {"shape": (), "element_bytes": rng.choice((2, 4, 8))},
        *({"shape": shape, "element_bytes": 2} for shape in shapes),
        *({"shape": shape, "element_bytes": size} for size in DTYPES for shape in several),
    ]


@declares_check(
    "u00-tensor-bytes", tensor_cases, fallback="course_utils.formulas.tensors.tensor_bytes"
)
def measured_tensor_bytes(shape: tuple[int, ...], element_bytes: int) -> int:
    """Bytes of a tensor of this shape, as PyTorch reports them."""
    return storage_bytes(torch.empty(shape, dtype=DTYPES[element_bytes], device="meta"))


# === u00-state-gib
# The GiB of a model's training state.


def state_cases(seed: int) -> list[Case]:
    """Models of a million to a trillion parameters, at each byte count that the course meets."""
    rng = random.Random(seed)
    models = [rng.randint(10**digits // 10, 10**digits) for digits in (6, 8, 10, 12)]
    return [
        {"num_params": 2**30, "bytes_per_param": 2},
        {"num_params": rng.randint(2, 90) * 10**9, "bytes_per_param": 16},
        *({"num_params": n, "bytes_per_param": size} for n in models for size in (1, 2, 4, 16, 18)),
    ]


@declares_check("u00-state-gib", state_cases, relative_tolerance=PROMISED)
def exact_state_gib(num_params: int, bytes_per_param: int) -> float:
    """The number in exact fractions: three divisions by 1,024."""
    kib = Fraction(num_params * bytes_per_param, 1024)
    return float(kib / 1024 / 1024)


# === u00-step-seconds
# The seconds of a training step.


def step_cases(seed: int) -> list[Case]:
    """One sequence and many, odd lengths, rates from a laptop's to a large cluster's.

    One count of FLOPs is more than 64 bits hold. At the end each size is changed by itself.
    """
    rng = random.Random(seed)

    def case(num_sequences: int, digits: int) -> Case:
        return {
            "num_sequences": num_sequences,
            "seq_len": rng.randrange(129, 8193, 2),
            "flops_per_token": rng.randint(10**8, 10**12),
            "flops_per_second": rng.randint(10**digits // 10, 10**digits),
        }

    worked = named(case(4, 14), (4, 1000, 6 * 10**9, 10**14))
    batches = (1, 1, rng.randint(2, 64), rng.randint(65, 4096))
    cases = [case(size, digits) for size in batches for digits in (11, 13, 15, 17, 19)]
    largest = case(4096, 19) | {"seq_len": 8191, "flops_per_token": rng.randint(10**12, 2 * 10**12)}
    start, end = case(rng.randint(2, 64), 14), case(rng.randint(65, 128), 15)
    one_at_a_time = accumulate([start, *({name: each} for name, each in end.items())], operator.or_)
    return [worked, *cases, largest, *one_at_a_time]


@declares_check("u00-step-seconds", step_cases, relative_tolerance=PROMISED)
def exact_step_seconds(
    num_sequences: int, seq_len: int, flops_per_token: int, flops_per_second: int
) -> float:
    """The number in exact fractions: the seconds of one token, added up."""
    one_token = Fraction(flops_per_token, flops_per_second)
    return float(sum([one_token * seq_len] * num_sequences))


# === u00-four-memories
# Four numbers for one process: saved, allocated, reserved, driver.


SAVED = "saved_for_backward"
OTHERS = ("parameters", "gradients", "optimizer_states", "temporaries")


def memory_cases(seed: int) -> list[Case]:
    """Any categories in any order, some empty, some equally large; with and without a cache.

    The largest numbers are odd and beyond a float. At the end each size is changed by itself.
    """
    rng = random.Random(seed)

    def live(names: list[str]) -> dict[str, int]:
        rng.shuffle(names)
        return {name: rng.choice((0, rng.randint(1, 2**36))) for name in names}

    def case(live_bytes: dict[str, int], cached_bytes: int, outside_bytes: int = 0) -> Case:
        outside = outside_bytes or rng.randint(2**28, 2**31)
        return {"live_bytes": live_bytes, "cached_bytes": cached_bytes, "outside_bytes": outside}

    full = {name: rng.randint(1, 2**36) for name in (*OTHERS, SAVED)}
    as_large = full | {"gradients": full["parameters"], "temporaries": full[SAVED]}
    even = {name: 2 * rng.randrange(2**57, 2**58) for name in (*full, "cached", "outside")}
    cached, outside = even.pop("cached"), even.pop("outside")
    one_at_a_time: list[Case] = [
        case(full, rng.randint(1, 2**34)),
        {"live_bytes": as_large},
        {"cached_bytes": rng.randint(1, 2**34)},
        {"outside_bytes": rng.randint(2**28, 2**31)},
    ]
    return [
        case({"parameters": 100, SAVED: 40}, 10, 500),
        case({SAVED: rng.randint(1, 2**36), "temporaries": rng.randint(1, 2**36)}, 2**20),
        case({"parameters": rng.randint(1, 2**36), SAVED: 0}, 0),
        {"live_bytes": full, "cached_bytes": 0, "outside_bytes": 0},
        case(even | {SAVED: even[SAVED] + 1}, cached, outside),
        *(
            case(live([SAVED, *rng.sample(OTHERS, count)]), rng.choice((0, rng.randint(1, 2**34))))
            for count in (0, 1, 2, 3, 4)
            for _ in range(4)
        ),
        *accumulate(one_at_a_time, operator.or_),
    ]


@declares_check("u00-four-memories", memory_cases)
def counted_memories(
    live_bytes: Mapping[str, int], cached_bytes: int, outside_bytes: int
) -> dict[str, int]:
    """The four numbers, counted item by item over all that the driver sees."""
    items = [("outside", outside_bytes), ("cached", cached_bytes), *live_bytes.items()]
    counted = dict.fromkeys(("saved_bytes", "allocated_bytes", "reserved_bytes", "driver_bytes"), 0)
    for name, num_bytes in items:
        counted["driver_bytes"] += num_bytes
        counted["reserved_bytes"] += num_bytes if name != "outside" else 0
        counted["allocated_bytes"] += num_bytes if name in live_bytes else 0
        counted["saved_bytes"] += num_bytes if name == SAVED else 0
    return counted
