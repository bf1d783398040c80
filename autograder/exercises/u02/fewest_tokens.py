"""Check of the fewest tokens with which a product reaches the ridge."""

import math
import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of
from autograder.exercises.u02.shared.sizes import COUNTERS
from course_utils.configs import DEVICES

ROOM = 2**60  # more rows than any case needs
REAL = ((2048, 2048), (4096, 14336), (8192, 28672))


def token_cases(seed: int) -> list[Case]:
    """Real devices and layers in several formats; layers too small, or just wide enough.

    In three cases a ridge is met exactly, and floats come out above the whole number; in one the
    intensity tends to the ridge itself, and so never reaches it.
    """
    rng = random.Random(seed)

    def case(inner: int, columns: int, element_bytes: int, peak: int, bandwidth: int) -> Case:
        return {
            **{"inner": inner, "columns": columns, "element_bytes": element_bytes},
            **{"flops_per_second": peak, "bytes_per_second": bandwidth},
        }

    cases = [case(4, 6, 2, 20, 10)]
    for name in ("A100-80", "H100-SXM", "H200", "B200"):
        each, real = DEVICES[name], _real(rng)
        bandwidth, peak = each.bandwidth_bytes_per_second, each.dense_flops_per_second("bf16")
        small = 64 * rng.randint(6, 9)
        cases += [case(*sizes, 2, peak, bandwidth) for sizes in (*real[1:], (small, small))]
        cases.append(case(*rng.choice(real), 4, each.dense_flops_per_second("fp32"), bandwidth))
    fp8 = DEVICES["H100-SXM"].dense_flops_per_second("fp8")
    cases += [case(*sizes, 1, fp8, 3350 * 10**9) for sizes in _real(rng)]
    for element_bytes in (1, 2, 4):
        inner, columns = rng.randrange(300, 3000, 2), rng.randrange(301, 3000, 2)
        cases.append(case(inner, columns, element_bytes, rng.randint(20, 60), rng.randint(5, 9)))
    size = 2 ** rng.randint(6, 9)
    cases.append(case(size, size, 2, 10**9 * size, 2 * 10**9))  # tends to its ridge, size / 2
    rate = rng.randint(1, 99) * 10**6
    cases.append(case(2049, 2049, 2, 2049 * 127 * rate, 256 * rate))  # more than 100,000 rows
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
        ridge = peak / bandwidth
        left_over = 2 * inner * columns - ridge * element_bytes * (inner + columns)
        if ridge * element_bytes * inner * columns / left_over > rows:  # as floats have it
            return {
                **{"inner": inner, "columns": columns, "element_bytes": element_bytes},
                **{"flops_per_second": peak, "bytes_per_second": bandwidth},
            }


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


CHECK = Check(
    cases=token_cases,
    judge=EqualTo(searched, *mistakes_of("u02-fewest-tokens")),
    fallback="course_utils.formulas.roofline.fewest_tokens",
    answers=COUNTERS,
)
