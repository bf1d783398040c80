"""Check of the hyperbola that trades steps against examples."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited


def tradeoff_cases(seed: int) -> list[Case]:
    """Batches at, far below and far above the critical size, which is often fractional."""
    rng = random.Random(seed)
    names = ("min_steps", "critical_batch_size", "batch_size")
    cases = [(100.0, 30.0, 10)]
    for power in (-10, -7, -4, -2, -1, 1, 2, 4, 7, 10):
        for _ in range(2):
            batch_size = rng.randint(1, 999)
            critical = round(batch_size * 2**-power * rng.uniform(0.8, 1.2), 4)
            cases.append((float(rng.randint(5, 90_000)), critical, batch_size))
    sizes = [rng.randint(2, 5000) for _ in range(3)]
    cases += [(float(rng.randint(5, 900)), float(size), size) for size in sizes]
    return [dict(zip(names, each, strict=True)) for each in cases]


def on_the_hyperbola(
    min_steps: float, critical_batch_size: float, batch_size: int
) -> dict[str, float]:
    """Steps and examples by bisection: where E = B S meets the hyperbola, with S > S_min."""

    def is_beyond(excess: float) -> bool:
        """Whether (S / S_min - 1) (E / E_min - 1) >= 1 for S = S_min (1 + excess)."""
        return excess * (batch_size * (1 + excess) / critical_batch_size - 1) >= 1

    low, high = 0.0, 1.0
    while not is_beyond(high):
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    steps = min_steps * (1 + high)
    return {"steps": steps, "examples": batch_size * steps}


STEPS = "min_steps + min_steps * critical_batch_size / batch_size"
EXAMPLES = "steps * batch_size"
EDITS = (
    Edit(
        "Both numbers are there, each under the other's name. How many examples does one step "
        "take?",
        {
            f'{{"steps": steps, "examples": {EXAMPLES}}}': (
                f'{{"examples": steps, "steps": {EXAMPLES}}}'
            )
        },
    ),
    Edit(
        "Your examples are the fewest, whatever the batch. How many steps of how many examples "
        "did you take?",
        {EXAMPLES: "min_steps * critical_batch_size"},
        points=0.5,
    ),
    Edit(
        "Your examples are steps of the critical batch size. How many examples does each step "
        "take?",
        {EXAMPLES: "steps * critical_batch_size"},
        points=0.5,
    ),
    Edit(
        "Your examples are as few as steps. Which factor turns steps into examples?",
        {EXAMPLES: "min_steps * (1 + batch_size / critical_batch_size)"},
        points=0.5,
    ),
    Edit(
        "Your examples are those of the fewest steps. Is that how many steps this batch takes?",
        {EXAMPLES: "min_steps * batch_size"},
        points=0.5,
    ),
    Edit(
        "Your steps are those of perfect scaling. Below which number do they never come, however "
        "large the batch is?",
        {STEPS: "min_steps * critical_batch_size / batch_size"},
    ),
    Edit(
        "Your line has a corner at the critical batch size. How many steps does the hyperbola "
        "give there, the fewest or more?",
        {STEPS: "max(min_steps, min_steps * critical_batch_size / batch_size)"},
    ),
    Edit(
        "Your steps grow with the batch. Which of B and B_c belongs below the other?",
        {STEPS: "min_steps + min_steps * batch_size / critical_batch_size"},
    ),
    Edit(
        "You have the fewest steps for every batch. What do you get for S / S_min when you put "
        "E = B S into the hyperbola?",
        {STEPS: "min_steps"},
    ),
    *(
        Edit(
            "This is the middle of the hyperbola, whatever the batch. Which argument have you not "
            "used?",
            {STEPS: "2 * min_steps", **examples},
        )
        for examples in ({}, {EXAMPLES: "steps * critical_batch_size"})
    ),
    Edit(
        "You multiply S / S_min by E / E_min. What has become of the two ones in the brackets?",
        {STEPS: "min_steps * math.sqrt(critical_batch_size / batch_size)"},
    ),
    Edit(
        "Your hyperbola has a root in it. What remains of the product of the two brackets when "
        "E = B S stands in it, and what cancels?",
        {STEPS: "min_steps * (1 + math.sqrt(critical_batch_size / batch_size))"},
    ),
    *(
        Edit(
            "Your steps are rounded to whole ones. Which type does the exercise ask for, and how "
            "many digits?",
            {STEPS: f"{rounding}({STEPS})"},
        )
        for rounding in ("math.ceil", "round", "int")
    ),
)

CHECK = Check(
    cases=tradeoff_cases,
    judge=EqualTo(on_the_hyperbola, *edited("u08-tradeoff", EDITS), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.batch_size.steps_and_examples",
)
