"""Check of a dense peak counted from the tensor cores, and of the MFU that divides by it."""

import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake

NAMES = (
    *("num_tensor_cores", "multiply_adds_per_clock", "clock_mhz"),
    *("flops_per_token", "tokens_per_second"),
)
# One division and a few products of floats, in any order.
ROUNDING = 1e-12
MEGA = 10**6
Numbers = dict[str, int | float]


def dense_peak(
    num_tensor_cores: int,
    multiply_adds_per_clock: int,
    clock_mhz: int,
    flops_per_token: int,
    tokens_per_second: int,
) -> Numbers:
    """The course's own answer."""
    dense = num_tensor_cores * multiply_adds_per_clock * 2 * clock_mhz * MEGA
    return {
        "dense_flops_per_second": dense,
        "mfu": flops_per_token * tokens_per_second / dense,
    }


def peak_cases(seed: int) -> list[Case]:
    """The A100, the H100 and made-up devices; utilisations from 3 to 95 percent."""
    rng = random.Random(seed)
    devices = [(2, 4, 1), (432, 256, 1410), (528, 512, 1830), (640, 1024, 1035)]
    while len(devices) < 20:
        cores, per_clock = rng.randint(100, 700), 2 ** rng.randint(6, 10)
        devices.append((cores, per_clock, rng.randint(900, 2100)))
    shares = [40, *(rng.randint(3, 95) for _ in devices[1:])]
    return [
        _case(*each, share, 10**3 if n == 0 else rng.randint(2, 90) * 10**8)
        for n, (each, share) in enumerate(zip(devices, shares, strict=True))
    ]


def _case(cores: int, per_clock: int, mhz: int, percent: int, flops_per_token: int) -> Case:
    peak = dense_peak(cores, per_clock, mhz, 1, 1)["dense_flops_per_second"]
    tokens_per_second = int(peak * percent) // (100 * flops_per_token)
    values = (cores, per_clock, mhz, flops_per_token, tokens_per_second)
    return dict(zip(NAMES, values, strict=True))


def counted(
    num_tensor_cores: int,
    multiply_adds_per_clock: int,
    clock_mhz: int,
    flops_per_token: int,
    tokens_per_second: int,
) -> Numbers:
    """The same from exact times: what a token takes at the peak, and what it took."""
    seconds_of_a_clock = Fraction(1, clock_mhz * MEGA)
    multiplications = additions = sum([multiply_adds_per_clock] * num_tensor_cores)
    seconds_of_a_flop = seconds_of_a_clock / (multiplications + additions)
    least_seconds = flops_per_token * seconds_of_a_flop
    return {
        "dense_flops_per_second": int(1 / seconds_of_a_flop),
        "mfu": float(least_seconds / Fraction(1, tokens_per_second)),
    }


CHECK = Check(
    cases=peak_cases,
    reference=dense_peak,
    judge=EqualTo(
        counted,
        Mistake(
            "Your peak counts a multiplication and an addition as one operation. How many FLOPs is "
            "a multiply-add in this course?",
            lambda c, m, mhz, flops, tokens: {"dense_flops_per_second": c * m * mhz * MEGA},
        ),
        Mistake(
            "Your peak is twice the dense one. Which weights would half of these operations skip, "
            "and does training have them?",
            lambda c, m, mhz, flops, tokens: {"dense_flops_per_second": 4 * c * m * mhz * MEGA},
        ),
        Mistake(
            "Your peak is too small by a million. What does the M in MHz say?",
            lambda c, m, mhz, flops, tokens: {"dense_flops_per_second": 2 * c * m * mhz},
        ),
        Mistake(
            "Your peak is too large by a thousand. Is that the step from MHz to Hz?",
            lambda c, m, mhz, flops, tokens: {
                "dense_flops_per_second": 2 * c * m * mhz * 1000 * MEGA
            },
        ),
        Mistake(
            "Your peak is that of one core. How many of them work at once?",
            lambda c, m, mhz, flops, tokens: {"dense_flops_per_second": 2 * m * mhz * MEGA},
        ),
        Mistake(
            "Your MFU is zero. What does a division with // make of a number below one?",
            lambda *case: {"mfu": 0},
        ),
        Mistake(
            "Your MFU is a percentage. What does the exercise ask for?",
            lambda *case: {"mfu": 100 * dense_peak(*case)["mfu"]},
        ),
        Mistake(
            "Your MFU divides by the figure with sparsity. Which of the two rates can a dense "
            "product reach?",
            lambda *case: {"mfu": dense_peak(*case)["mfu"] / 2},
        ),
        Mistake(
            "Your MFU is twice too large. Which peak stands below the line, and how many FLOPs is "
            "a multiply-add there?",
            lambda *case: {"mfu": 2 * dense_peak(*case)["mfu"]},
        ),
        Mistake(
            "Your MFU knows nothing of how many tokens there are in a second. Which FLOPs does the "
            "device do in a second?",
            lambda *case: {"mfu": dense_peak(*case)["mfu"] / case[4]},
        ),
        Mistake(
            "Your MFU knows nothing of how much a token costs. Which FLOPs does the device do in "
            "a second?",
            lambda *case: {"mfu": dense_peak(*case)["mfu"] / case[3]},
        ),
        Mistake(
            "Your MFU is turned over. Which of the two is at most one, what is done by what could "
            "be done, or the other way round?",
            lambda *case: {"mfu": 1 / dense_peak(*case)["mfu"]},
        ),
        relative_tolerance=ROUNDING,
    ),
)
