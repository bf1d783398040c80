"""Check of the noise scale from the norms of two batches."""

import math
import random
from fractions import Fraction

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited


def two_batch_cases(seed: int) -> list[Case]:
    """Near and far batch sizes; |G|**2 below, at and just above zero; a negative trace."""
    rng = random.Random(seed)
    cases = [(5.0, 3.0, 2, 4)]
    for small, factor in ((1, 2), (1, 64), (2, 5), (3, 7), (8, 64), (16, 3), (4, 256)):
        cases += [_norms(rng, small, small * factor, 1) for _ in range(2)]
    for small, big in ((1, 3), (2, 32), (8, 512), (5, 10)):
        cases.append(_norms(rng, small, big, -1))
    for small, big in ((1, 4), (4, 12)):
        least = rng.randint(2, 9)
        cases.append((float(least), least + rng.randint(1, 4) / 4, small, big))
    trace = 8.0 * rng.randint(1, 9)
    cases.append((trace / 4, trace / 8, 4, 8))  # |G|**2 is zero, without any rounding
    for scale, small, big in ((2.0**-50, 2, 8), (2.0**-120, 4, 20)):
        small_norm, big_norm, *_ = _norms(rng, small, big, 1)
        cases.append((scale * small_norm, scale * big_norm, small, big))
    names = ("small_squared_norm", "big_squared_norm", "small_batch_size", "big_batch_size")
    return [dict(zip(names, each, strict=True)) for each in cases]


def _norms(rng: random.Random, small: int, big: int, sign: int) -> tuple[float, float, int, int]:
    """Squared norms for which the estimate of |G|**2 has a given sign and is not near zero."""
    trace, squared_norm = rng.randint(8, 40) * big / 4, sign * rng.randint(3, 9) / 4
    while squared_norm + trace / big <= 0:
        trace += big / 4
    return squared_norm + trace / small, squared_norm + trace / big, small, big


def solved_estimate(
    small_squared_norm: float, big_squared_norm: float, small_batch_size: int, big_batch_size: int
) -> dict[str, float]:
    """The estimates by Cramer's rule on two equations, in fractions.

    ``1 * |G|**2 + (1 / B) * tr(Σ) = |G_B|**2`` for both batch sizes.
    """
    small, big = Fraction(small_squared_norm), Fraction(big_squared_norm)
    one, other = Fraction(1, small_batch_size), Fraction(1, big_batch_size)
    determinant = other - one
    squared_norm, trace = (small * other - one * big) / determinant, (big - small) / determinant
    return {
        "squared_norm": float(squared_norm),
        "trace": float(trace),
        "noise_scale": float(trace / squared_norm) if squared_norm > 0 else math.inf,
    }


GAP, INVERSES = "small_squared_norm - big_squared_norm", "1 / small_batch_size - 1 / big_batch_size"
TRACE = f"({GAP}) / ({INVERSES})"
NORM = "big_squared_norm - trace / big_batch_size"
WEIGHTED = "(big_batch_size * big_squared_norm - small_batch_size * small_squared_norm)"
SIZES = "(big_batch_size - small_batch_size)"
RATIO, GUARD = "trace / squared_norm if", "if squared_norm > 0"
AT_LEAST_ZERO = {NORM: f"max(0.0, {NORM})"}
TRACE_AT_LEAST_ZERO = "\n    trace = max(0.0, trace)"

CLAMPED = "You make zeros of negative estimates. Would they still be right on average?"
UPSIDE_DOWN = "Your noise scale is upside down. Should more noise make it larger or smaller?"
NOT_INVERSE = "In which form do the sizes stand in the two equations?"
OTHER_TRACES = {
    GAP: ("Your trace is the bare difference of the two norms. By how much do 1/b and 1/B differ?"),
    f"({GAP}) * small_batch_size": (
        "You multiply the difference of the norms by the small batch size, as if the large batch "
        "had no noise. What is left over when you subtract the two equations?"
    ),
    f"({GAP}) * ({INVERSES})": (
        "You multiply the difference of the norms by 1/b − 1/B. What does it take to have the "
        "trace alone on one side of the equation?"
    ),
    f"({GAP}) / (1 / small_batch_size**0.5 - 1 / big_batch_size**0.5)": (
        "You divide by the inverse roots of the batch sizes. Which falls like one over the root, "
        "the noise's length or its square?"
    ),
    f"({GAP}) * {SIZES}": (
        f"You multiply the difference of the norms by that of the batch sizes. {NOT_INVERSE}"
    ),
    f"({GAP}) / {SIZES}": (
        f"You divide the difference of the norms by that of the batch sizes. {NOT_INVERSE}"
    ),
    f"({GAP}) / (1 / big_batch_size - 1 / small_batch_size)": (
        "Your trace has the other sign. Which of the two batches is the noisier, and which norm is "
        "the larger then?"
    ),
}
EDITS = (
    Edit(
        "You take a small positive |G|² for none. Where alone does the exercise ask for an "
        "infinite noise scale?",
        {GUARD: f"{GUARD.removesuffix('0')}1e-12"},
        points=1.0,
    ),
    Edit(
        "Your noise scale has lost its sign where the trace is negative. What does the exercise "
        "say of estimates that are negative by chance?",
        {RATIO: "abs(trace) / squared_norm if"},
        points=1.0,
    ),
    Edit(
        "Your noise scale is the trace over a norm that was measured. Which of the two estimates "
        "belongs below the other?",
        {RATIO: "trace / big_squared_norm if"},
        points=1.0,
    ),
    Edit(
        "You take the large batch's squared norm for |G|². What does the line above the exercise "
        "add to |G|², however large the batch is?",
        {NORM: "big_squared_norm"},
        points=0.5,
        shows=("squared_norm",),
    ),
    Edit(
        "Your formula for |G|² is right for a batch that is twice the other. Where would b and B "
        "stand in it?",
        {TRACE: f"({GAP}) * big_batch_size", NORM: "2 * big_squared_norm - small_squared_norm"},
        shows=("squared_norm",),
    ),
    *(
        Edit(hint, {TRACE: trace, **norm}, points=0.5 * len(norm))
        for trace, hint in OTHER_TRACES.items()
        for norm in ({}, {NORM: f"{WEIGHTED} / {SIZES}"})
    ),
    Edit(
        "You take the noise of the large batch from the norm of the small one. Which of the two "
        "equations has 1/B in it?",
        {NORM: "small_squared_norm - trace / big_batch_size"},
        points=0.5,
    ),
    Edit(
        "You square the norms once more. What do the names of the arguments say?",
        {
            GAP: "small_squared_norm**2 - big_squared_norm**2",
            NORM: "big_squared_norm**2 - trace / big_batch_size",
        },
    ),
    Edit(CLAMPED, AT_LEAST_ZERO, points=1.0),
    Edit(CLAMPED, {NORM: NORM + TRACE_AT_LEAST_ZERO}, points=0.5),
    Edit(CLAMPED, {NORM: AT_LEAST_ZERO[NORM] + TRACE_AT_LEAST_ZERO}),
    Edit(
        "Your noise scale is infinite where the trace is negative, too. Where alone does the "
        "exercise ask for that?",
        {GUARD: f"{GUARD} and trace > 0"},
        points=1.0,
    ),
    Edit(
        "Your batch sizes weigh each the other's norm. Multiply each equation by its own size: "
        "what do you subtract?",
        {
            NORM: "(big_batch_size * small_squared_norm - small_batch_size * big_squared_norm)"
            f" / {SIZES}"
        },
        points=0.5,
    ),
    Edit(
        "Your |G|² is a multiple of what is wanted. How many times does |G|² stand in the "
        "difference of your two equations?",
        {NORM: WEIGHTED},
        points=0.5,
    ),
    *(
        Edit(
            "Your noise scale is not infinite where the estimate of |G|² is not positive. What "
            "does the exercise ask for there?",
            pieces,
            points=1.0,
        )
        for pieces in (
            {GUARD: "if squared_norm"},
            {"math.inf": "0.0"},
            {f"{RATIO} squared_norm > 0": "trace / abs(squared_norm) if squared_norm"},
        )
    ),
    Edit(
        "You add the noise of the large batch to its norm, which has it already. On which side of "
        "the equation does |G|² stand alone?",
        {NORM: "big_squared_norm + trace / big_batch_size"},
        points=0.5,
    ),
    Edit(UPSIDE_DOWN, {f"{RATIO} squared_norm > 0 else math.inf": "squared_norm / trace"}, 1.0),
    Edit(UPSIDE_DOWN, {RATIO: "squared_norm / trace if"}, points=1.0),
)

CHECK = Check(
    cases=two_batch_cases,
    judge=EqualTo(solved_estimate, *edited("u08-two-batch", EDITS), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.batch_size.estimate_noise",
)
