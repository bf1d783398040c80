"""Check of the time of an epoch whose batches are loaded by workers."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited

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
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def simulated(load_ms: int, step_ms: int, num_workers: int, num_batches: int) -> int:
    """Each worker makes its batches one after the other; steps take them in order."""
    free, now = [0] * num_workers, 0
    for batch in range(num_batches):
        free[batch % num_workers] += load_ms
        now = max(now, free[batch % num_workers]) + step_ms
    return now


WORKER, TAKEN = (
    "free[batch % num_workers] += load_ms",
    "now = max(now, free[batch % num_workers]) + step_ms",
)
DIVIDED = "load_ms / num_workers"
SMOOTH = f"return load_ms + (num_batches - 1) * max(step_ms, {DIVIDED}) + step_ms"
STEPS, ROUNDS = "load_ms + num_batches * step_ms", "-(-num_batches // num_workers)"
EDITS = (
    Edit(
        "Nothing overlaps in yours. What do the workers do while a step runs?",
        {TAKEN: "now += load_ms + step_ms"},
    ),
    Edit(
        "You take the longer of loading and stepping, and forget the ends. What is there to work "
        "on while the first batch is loaded, and which step follows the last?",
        {TAKEN: "now += max(load_ms / num_workers, step_ms)"},
    ),
    Edit(
        "You take the longer of loading and stepping, and forget the ends. What is there to work "
        "on while the first batch is loaded, and which step follows the last?",
        {"return now": f"return max(num_batches * step_ms, {ROUNDS} * load_ms)"},
    ),
    *(
        Edit(
            "Your last batch takes as long as the others. What is left to do when it is loaded?",
            {"return now": f"return load_ms + num_batches * max(step_ms, {each})"},
        )
        for each in (DIVIDED, DIVIDED.replace("/", "//"))
    ),
    Edit(
        "Your number of workers changes nothing. How many batches are loaded at the same time?",
        {TAKEN: "now = max(now, (batch + 1) * load_ms) + step_ms"},
    ),
    Edit(
        "The first batch is there sooner than one worker can make it. Do several workers share one "
        "batch?",
        {TAKEN: "now = max(now, (batch + 1) * load_ms / num_workers) + step_ms"},
    ),
    *(
        Edit(
            "Your batches arrive at even distances. When are the first batches of all workers "
            "there?",
            {"return now": smooth},
        )
        for smooth in (
            SMOOTH,
            SMOOTH.replace(" / ", " // "),
            SMOOTH.replace(DIVIDED, f"-(-{DIVIDED.replace('/', '//')})"),
        )
    ),
    Edit(
        "One step follows your last round of loads. How many batches came with that round?",
        {"return now": f"return max({STEPS}, {ROUNDS} * load_ms + step_ms)"},
    ),
    Edit(
        "Your last round of loads is a full one. How many batches are left for it?",
        {"return now": f"return max({STEPS}, {ROUNDS} * load_ms + num_workers * step_ms)"},
    ),
    Edit(
        "Each of your workers makes several batches in a row. Who makes the second batch here?",
        {
            "free = [0] * num_workers": f"in_a_row = {ROUNDS}",
            WORKER: "ready = (batch % in_a_row + 1) * load_ms",
            TAKEN: "now = max(now, ready) + step_ms",
        },
    ),
    Edit(
        "Loading is divided among the workers, and still nothing overlaps. What do they do while a "
        "step runs?",
        {"return now": "return num_batches * (load_ms / num_workers + step_ms)"},
    ),
    Edit(
        "The last step is missing. Is an epoch over when its last batch is there?",
        {TAKEN: "now = max(now, free[batch % num_workers]) + step_ms * (batch < num_batches - 1)"},
    ),
    Edit(
        "Your steps wait for no batch. What does a step need before it begins?",
        {TAKEN: "now += step_ms"},
    ),
    Edit(
        "Your workers make all batches at once. How long is a worker busy before its next one?",
        {WORKER: "free[batch % num_workers] = load_ms"},
    ),
)

CHECK = Check(
    cases=epoch_cases,
    judge=EqualTo(simulated, *edited("u02-loader", EDITS), relative_tolerance=PROMISED),
    fallback="course_utils.formulas.roofline.epoch_seconds",
    answers=("course_utils.formulas.roofline",),
)
