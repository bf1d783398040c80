"""Checks of unit 00: bytes of a tensor, and the words and units that the course never mixes."""

import random
from collections.abc import Mapping
from fractions import Fraction

import torch

from autograder.checking.check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas.memory import four_memories
from course_utils.formulas.step_time import step_seconds
from course_utils.formulas.tensors import tensor_bytes
from course_utils.instruments import storage_bytes

DTYPES = {1: torch.bool, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}

# Nine digits, as the exercises say: more than float64 loses, less than any mistake makes.
ROUNDING = 1e-9


def tensor_cases(seed: int) -> list[Case]:
    """Shapes of no axis to four, ones, an empty axis, odd sizes, for every element size."""
    rng = random.Random(seed)

    def sizes(count: int) -> tuple[int, ...]:
        return tuple(rng.randint(2, 97) for _ in range(count))

    shapes = [(2, 3), (), (1,), (0, 5), sizes(1), sizes(2), sizes(3), (1, *sizes(2)), sizes(4)]
    cases: list[Case] = [{"shape": shape, "element_bytes": 2} for shape in shapes]
    for element_bytes in DTYPES:
        cases += [{"shape": sizes(n), "element_bytes": element_bytes} for n in (1, 2, 3)]
    return cases


def measured_tensor_bytes(shape: tuple[int, ...], element_bytes: int) -> int:
    """Bytes of a tensor of this shape, asked of PyTorch."""
    return storage_bytes(torch.empty(shape, dtype=DTYPES[element_bytes], device="meta"))


def _elements(shape: tuple[int, ...]) -> int:
    return torch.empty(shape, device="meta").numel()


TENSOR_BYTES = Check(
    cases=tensor_cases,
    reference=tensor_bytes,
    judge=EqualTo(
        measured_tensor_bytes,
        Mistake(
            "A tensor without axes still holds something. How many numbers are in "
            "torch.tensor(3.14)?",
            lambda shape, size: _elements(shape) * size if shape else 0,
        ),
        Mistake(
            "A tensor without axes holds one number. How many bytes does that number take?",
            lambda shape, size: _elements(shape) * size if shape else 1,
        ),
        Mistake(
            "The bytes of an element enter your product once for each axis. How often should they?",
            lambda shape, size: _elements(shape) * size ** len(shape),
        ),
        Mistake(
            "An axis of size 0 leaves nothing. How many numbers do 0 rows of 5 hold?",
            lambda shape, size: _elements(tuple(n for n in shape if n)) * size,
        ),
        Mistake(
            "Your product is always zero. What do you multiply the first size with?",
            lambda shape, size: 0,
        ),
        Mistake(
            "You count the numbers in the tensor. How many bytes does each of them take?",
            lambda shape, size: _elements(shape),
        ),
        Mistake(
            "You count bits. How many bits make one byte?",
            lambda shape, size: 8 * _elements(shape) * size,
        ),
        Mistake(
            "You add the sizes of the axes. How many numbers do 2 rows of 3 hold?",
            lambda shape, size: sum(shape) * size,
        ),
        Mistake(
            "You take every element for 4 bytes. Is every element 4 bytes large?",
            lambda shape, size: _elements(shape) * 4,
        ),
    ),
)


def state_cases(seed: int) -> list[Case]:
    """Models of a million to a trillion parameters, at each byte count that the course meets."""
    rng = random.Random(seed)
    cases: list[Case] = [
        {"num_params": 2**30, "bytes_per_param": 2},
        {"num_params": 7 * 10**9, "bytes_per_param": 16},
    ]
    for bytes_per_param in (1, 2, 4, 16, 18):
        for digits in (6, 8, 10, 12):
            num_params = rng.randint(10**digits // 10, 10**digits)
            cases.append({"num_params": num_params, "bytes_per_param": bytes_per_param})
    return cases


def state_gib(num_params: int, bytes_per_param: int) -> float:
    """GiB of a model's training state: the package itself counts in bytes."""
    return num_params * bytes_per_param / 2**30


def exact_state_gib(num_params: int, bytes_per_param: int) -> float:
    """The same number by exact fractions: three divisions by 1,024."""
    kib = Fraction(num_params * bytes_per_param, 1024)
    return float(kib / 1024 / 1024)


STATE_GIB = Check(
    cases=state_cases,
    reference=state_gib,
    judge=EqualTo(
        exact_state_gib,
        Mistake(
            "That is the number of GB, with 10**9 bytes each. How many bytes has a GiB?",
            lambda params, size: params * size / 10**9,
        ),
        Mistake(
            "That is the number of bytes. Which step takes bytes to GiB?",
            lambda params, size: params * size,
        ),
        Mistake(
            "That is the number of MiB. How many MiB make one GiB?",
            lambda params, size: params * size / 2**20,
        ),
        Mistake(
            "Your answer does not change with bytes_per_param. What does each parameter carry?",
            lambda params, size: params / 2**30,
        ),
        *(
            Mistake(
                f"Your answer is rounded to {words}. What is lost for a model of a million?",
                lambda params, size, places=places: round(params * size / 2**30, places),
            )
            for places, words in ((1, "one place"), (2, "two places"), (3, "three places"))
        ),
        Mistake(
            "You divide by 28, which is what Python makes of 2 ^ 30. How does it write a power?",
            lambda params, size: params * size / 28,
        ),
        Mistake(
            "You divide without a remainder. Is half a GiB nothing?",
            lambda params, size: params * size // 2**30,
        ),
        relative_tolerance=ROUNDING,
    ),
)


def step_cases(seed: int) -> list[Case]:
    """One sequence and many, odd lengths, rates from a laptop's to a large cluster's."""
    rng = random.Random(seed)
    first: Case = {
        "num_sequences": 4,
        "seq_len": 1000,
        "flops_per_token": 6 * 10**9,
        "flops_per_second": 10**14,
    }
    return [first] + [
        {
            "num_sequences": num_sequences,
            "seq_len": rng.randrange(129, 8193, 2),
            "flops_per_token": rng.randint(10**8, 10**12),
            "flops_per_second": rng.randint(10**digits // 10, 10**digits),
        }
        for num_sequences in (1, 1, rng.randint(2, 64), rng.randint(65, 4096))
        for digits in (11, 13, 15, 17, 19)
    ]


def exact_step_seconds(
    num_sequences: int, seq_len: int, flops_per_token: int, flops_per_second: int
) -> float:
    """The same number by exact fractions: the seconds of one token, added up."""
    one_token = Fraction(flops_per_token, flops_per_second)
    return float(sum([one_token * seq_len] * num_sequences))


STEP_SECONDS = Check(
    cases=step_cases,
    reference=step_seconds,
    judge=EqualTo(
        exact_step_seconds,
        Mistake(
            "You count sequences where tokens are meant. How many tokens has one sequence?",
            lambda b, s, work, rate: b * work / rate,
        ),
        Mistake(
            "That is the time of one sequence. How many are in the batch?",
            lambda b, s, work, rate: s * work / rate,
        ),
        Mistake(
            "That is a count of FLOPs. Which of the arguments is a rate, FLOP/s, and what does "
            "a count divided by a rate give?",
            lambda b, s, work, rate: b * s * work,
        ),
        Mistake(
            "Your result is in 1/s: steps per second. How long does one step take?",
            lambda b, s, work, rate: rate / (b * s * work),
        ),
        Mistake(
            "Look at the units: a FLOP/s times a FLOP is no time. What must stand below the line?",
            lambda b, s, work, rate: b * s * work * rate,
        ),
        Mistake(
            "You divide without a remainder. Is a quarter of a second nothing?",
            lambda b, s, work, rate: b * s * work // rate,
        ),
        Mistake(
            "That is the time of one token. How many tokens are in the batch?",
            lambda b, s, work, rate: work / rate,
        ),
        relative_tolerance=ROUNDING,
    ),
)

SAVED = "saved_for_backward"
OTHERS = ("parameters", "gradients", "optimizer_states", "temporaries")


def memory_cases(seed: int) -> list[Case]:
    """Any categories in any order, some of them empty; with and without cached blocks."""
    rng = random.Random(seed)

    def live(names: list[str]) -> dict[str, int]:
        rng.shuffle(names)
        return {name: rng.choice((0, rng.randint(1, 2**36))) for name in names}

    def case(live_bytes: dict[str, int], cached_bytes: int) -> Case:
        outside = rng.randint(2**28, 2**31)
        return {"live_bytes": live_bytes, "cached_bytes": cached_bytes, "outside_bytes": outside}

    full = {name: rng.randint(1, 2**36) for name in (*OTHERS, SAVED)}
    return [
        {"live_bytes": {"parameters": 100, SAVED: 40}, "cached_bytes": 10, "outside_bytes": 500},
        case(full, rng.randint(1, 2**34)),
        case({SAVED: rng.randint(1, 2**36), "temporaries": rng.randint(1, 2**36)}, 2**20),
        case({"parameters": rng.randint(1, 2**36), SAVED: 0}, 0),
        {"live_bytes": full, "cached_bytes": 0, "outside_bytes": 0},
        *(
            case(live([SAVED, *rng.sample(OTHERS, count)]), rng.choice((0, rng.randint(1, 2**34))))
            for count in (0, 1, 2, 3, 4)
            for _ in range(4)
        ),
    ]


def counted_memories(
    live_bytes: Mapping[str, int], cached_bytes: int, outside_bytes: int
) -> dict[str, int]:
    """The same four by going through all that the driver sees, one piece after the other."""
    pieces = [("outside", outside_bytes), ("cached", cached_bytes), *live_bytes.items()]
    counted = dict.fromkeys(("saved_bytes", "allocated_bytes", "reserved_bytes", "driver_bytes"), 0)
    for name, num_bytes in pieces:
        counted["driver_bytes"] += num_bytes
        counted["reserved_bytes"] += num_bytes if name != "outside" else 0
        counted["allocated_bytes"] += num_bytes if name in live_bytes else 0
        counted["saved_bytes"] += num_bytes if name == SAVED else 0
    return counted


def _without_saved(live: Mapping[str, int], cached: int, outside: int) -> dict[str, int]:
    allocated = sum(live.values()) - live[SAVED]
    return {
        "allocated_bytes": allocated,
        "reserved_bytes": allocated + cached,
        "driver_bytes": allocated + cached + outside,
    }


FOUR_MEMORIES = Check(
    cases=memory_cases,
    reference=four_memories,
    judge=EqualTo(
        counted_memories,
        Mistake(
            "Autograd keeps only some of the live tensors. Which category does it keep?",
            lambda live, cached, outside: {"saved_bytes": sum(live.values())},
        ),
        Mistake(
            "You leave out of allocated what is saved for backward. Is a saved tensor not live?",
            _without_saved,
        ),
        Mistake(
            "Other categories may be live too. Which of those in live_bytes do you leave out?",
            lambda live, cached, outside: {
                "allocated_bytes": live.get("parameters", 0) + live[SAVED],
            },
        ),
        Mistake(
            "What is cached is reserved and not allocated. What is the difference between the two?",
            lambda live, cached, outside: {"reserved_bytes": sum(live.values())},
        ),
        Mistake(
            "The driver sees everything that the process took. Which parts do you leave out?",
            lambda live, cached, outside: {"driver_bytes": outside},
        ),
        Mistake(
            "Free blocks are reserved, and so are the blocks in use. Which of them is missing?",
            lambda live, cached, outside: {
                "reserved_bytes": cached,
                "driver_bytes": cached + outside,
            },
        ),
        Mistake(
            "Blocks that the allocator keeps are not free for others. Does the driver see them?",
            lambda live, cached, outside: {"driver_bytes": sum(live.values()) + outside},
        ),
        Mistake(
            "The process also takes memory outside of PyTorch. Which of the four numbers shows it?",
            lambda live, cached, outside: {"driver_bytes": sum(live.values()) + cached},
        ),
        Mistake(
            "The CUDA context is outside of PyTorch's pool. Does the allocator reserve it?",
            lambda live, cached, outside: {"reserved_bytes": sum(live.values()) + cached + outside},
        ),
        Mistake(
            "Cached blocks hold no live tensor. Do they count as allocated?",
            lambda live, cached, outside: {"allocated_bytes": sum(live.values()) + cached},
        ),
    ),
)

CHECKS = {
    "u00-tensor-bytes": TENSOR_BYTES,
    "u00-state-gib": STATE_GIB,
    "u00-step-seconds": STEP_SECONDS,
    "u00-four-memories": FOUR_MEMORIES,
}
