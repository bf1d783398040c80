"""The checks of unit 04 on records: what fixes save at a peak, and after a failed request."""

import functools
import itertools
import random
from collections.abc import Callable

import torch

from autograder.checking.exercise_check import Case, named
from autograder.exercises.declaring import declares_check
from course_utils.records.traces import recorded_rows

# === u04-timeline
# The peak of a recorded timeline, and what is left of it without some categories.


TIMELINE_NAMES = ("changes", "avoided")
TIMELINE_WORKED = (
    [
        (0, "state", 50),
        (1, "activations", 40),
        (2, "gradients", 20),
        (2, "activations", 10),
        (3, "activations", 0),
        (3, "temporaries", 15),
    ],
    ["activations"],
)
RECORD, RUNS = "mem_xl_step", ("fp32", "bf16 autocast")
MICROSECONDS = 10**6  # in a second
FEWEST, MOST = 12, 40  # moments of a window
SHORT_MOMENTS = 5  # after the first, in the cases of a few rows
NAMES = (
    "kept for backward",
    "weights and averages",
    "gradients",
    "optimizer",
    "temporaries",
    "caches",
    "loss",
    "others",
)

Change = tuple[int, str, int]
"""When, in microseconds, a category of memory has how many bytes from then on."""

Timeline = list[Change]
Totals = list[int]


def timeline_cases(seed: int) -> list[Case]:
    """Windows of two real steps and made-up steps, in which a fix moves the peak or does not.

    Each window has categories of its own. Some peaks are reached twice, some at the end. Those of
    a few rows come first, since the first case that fails is the one that is shown.
    """
    rng = random.Random(seed)
    cases = [named(TIMELINE_NAMES, TIMELINE_WORKED)]
    cases += [_drawn(functools.partial(_short, rng, 1), is_wanted) for is_wanted in SHORT]
    cases += [_drawn(functools.partial(_short, rng, 2), is_wanted) for is_wanted in SHORT[:2]]
    cases += [_level(rng) for _ in range(2)]
    for draw in (_window, _made_step):
        for number in range(12):
            is_wanted = EFFECTS[number % len(EFFECTS)]
            cases.append(_drawn(functools.partial(draw, rng), is_wanted))
    return cases


def _drawn(draw: Callable[[], Case], is_wanted: Callable[[Case], bool]) -> Case:
    """The first draw that is as wanted."""
    return next(case for case in iter(draw, None) if is_wanted(case))


@functools.cache
def _rows(run: str) -> tuple[Change, ...]:
    """A recorded step, every change of it."""
    return tuple(
        (round(row["time_seconds"] * MICROSECONDS), row["category"], row["bytes"])
        for row in recorded_rows(RECORD)
        if row["run"] == run
    )


def _window(rng: random.Random) -> Case:
    """A stretch of a recorded step; its categories are put together and named by chance."""
    rows = _rows(rng.choice(RUNS))
    times = sorted({time_us for time_us, _, _ in rows})
    length = rng.randint(FEWEST, MOST)
    start = rng.randrange(len(times) - length)
    first, last = times[start], times[start + length - 1]
    groups = _groups(rng, sorted({category for _, category, _ in rows}))
    live, changes = dict.fromkeys(groups, 0), list[Change]()
    shown = dict.fromkeys(groups.values(), 0)
    for time_us, moment in itertools.groupby(rows, key=lambda row: row[0]):
        if time_us > last:
            break
        live |= {category: num_bytes for _, category, num_bytes in moment}
        if time_us >= first:
            now = {name: _sum_of(live, groups, name) for name in shown}
            changed = [name for name in now if now[name] != shown[name]]
            rng.shuffle(changed)
            changes += [(time_us - first, name, now[name]) for name in changed]
            shown = now
    return named(TIMELINE_NAMES, (changes, _some(rng, list(shown))))


def _groups(rng: random.Random, categories: list[str]) -> dict[str, str]:
    """A name for each category; some share one."""
    names = rng.sample(NAMES, rng.randint(3, 6))
    spare = [rng.choice(names) for _ in range(len(categories) - len(names))]
    given = [*names, *spare]
    rng.shuffle(given)
    return dict(zip(categories, given, strict=True))


def _sum_of(live: dict[str, int], groups: dict[str, str], name: str) -> int:
    return sum(num_bytes for category, num_bytes in live.items() if groups[category] == name)


def _some(rng: random.Random, names: list[str]) -> list[str]:
    return rng.sample(names, rng.randint(1, min(2, len(names) - 1)))


def _short(rng: random.Random, num_avoided: int) -> Case:
    """A few changes of three categories, at some moments of two at once."""
    names = rng.sample(NAMES, 3)
    unit, time_us = 4 * rng.randint(5, 500), rng.randint(1, 90)
    changes = [(time_us, names[0], unit * rng.randint(1, 30))]
    for number in range(SHORT_MOMENTS):
        time_us += rng.randint(2, 90)
        changed = dict.fromkeys((rng.choice(names), names[1 + number % 2]))
        changes += [(time_us, name, unit * rng.randint(0, 30)) for name in changed]
    return named(TIMELINE_NAMES, (changes, rng.sample(names, num_avoided)))


def _made_step(rng: random.Random) -> Case:
    """A step as of a small network: what is kept goes up and down, then the optimizer works."""
    state, kept, gradients, optimizer = rng.sample(NAMES, 4)
    layers, unit = rng.randint(3, 6), 4 * rng.randint(5, 500)
    step = rng.randint(2, 900)
    changes = [(0, state, unit * rng.randint(5, 20))]
    held, made, now = 0, 0, 0
    for _ in range(layers):
        now += step
        held += unit * rng.randint(1, 6)
        changes.append((now, kept, held))
    for left in reversed(range(layers)):
        now += step
        made += unit * rng.randint(1, 4)
        moment = [(now, gradients, made), (now, kept, held * left // layers)]
        changes += rng.sample(moment, 2)
    now += step
    changes.append((now, optimizer, unit * rng.randint(1, 20)))
    if rng.random() < 1 / 2:  # what ends last is not always told
        changes.append((now + step, optimizer, 0))
    return named(TIMELINE_NAMES, (changes, _some(rng, [state, kept, gradients, optimizer])))


def _level(rng: random.Random) -> Case:
    """Two humps of the same height; without one category the second is left."""
    state, kept, optimizer = rng.sample(NAMES, 3)
    unit, time_us = 4 * rng.randint(5, 500), rng.randint(2, 900)
    high, low = rng.randint(9, 20), rng.randint(1, 8)
    changes = [
        (0, state, unit * rng.randint(1, 30)),
        (time_us, kept, unit * high),
        (2 * time_us, kept, unit * low),
        (3 * time_us, optimizer, unit * (high - low)),
        (4 * time_us, optimizer, 0),
    ]
    return named(TIMELINE_NAMES, (changes, [kept]))


def _totals(changes: Timeline, without: tuple[str, ...] = ()) -> Totals:
    """Live bytes after each moment."""
    others = [change for change in changes if change[1] not in without]
    return [
        sum(_bytes_at(others, category, time_us) for category in {name for _, name, _ in others})
        for time_us in sorted({time_us for time_us, _, _ in changes})
    ]


def _bytes_at(changes: Timeline, category: str, time_us: int) -> int:
    """What the last change of a category up to a moment says; nothing before its first."""
    said = [size for at, name, size in changes if name == category and at <= time_us]
    return said[-1] if said else 0


def _saved_and_held(case: Case) -> tuple[int, int]:
    """What a fix saves, and what its categories hold at the peak."""
    changes, avoided = case["changes"], tuple(case["avoided"])
    whole, rest = _totals(changes), _totals(changes, avoided)
    peak = whole.index(max(whole))
    return max(whole) - max(rest), whole[peak] - rest[peak]


def is_moved(case: Case) -> bool:
    """Whether a fix lowers the peak by less than it takes from it."""
    saved, held = _saved_and_held(case)
    return 0 < saved < held


def is_kept(case: Case) -> bool:
    """Whether the peak stays where it is, and is lower by what a fix takes from it."""
    saved, held = _saved_and_held(case)
    return 0 < saved == held


def is_untouched(case: Case) -> bool:
    """Whether nothing that a fix avoids is live at the peak, though it is at other times."""
    saved, held = _saved_and_held(case)
    return saved == held == 0


def is_higher_between(case: Case) -> bool:
    """Whether more is live between two changes of one moment than ever when all are done."""
    live, highest = dict[str, int](), 0
    for _, category, num_bytes in case["changes"]:
        live[category] = num_bytes
        highest = max(highest, sum(live.values()))
    return highest > max(_totals(case["changes"]))


def is_highest_at_the_end(case: Case) -> bool:
    """Whether the peak is reached at the last moment alone."""
    *before, last = _totals(case["changes"])
    return last > max(before)


EFFECTS = (is_moved, is_kept, is_moved, is_untouched)
SHORT = (is_moved, is_kept, is_untouched, is_higher_between, is_highest_at_the_end)


@declares_check(
    "u04-timeline",
    timeline_cases,
    labels={
        "peak_bytes": "bytes at the peak",
        "peak_us": "the moment of the peak",
        "saved_bytes": "bytes by which the peak is lower",
    },
    fallback="course_utils.formulas.memory_over_time.peak_of_changes",
)
def scanned(changes: Timeline, avoided: list[str]) -> dict[str, int]:
    """Every category looked up again at every moment."""
    whole = _totals(changes)
    times = sorted({time_us for time_us, _, _ in changes})
    return {
        "peak_bytes": max(whole),
        "peak_us": times[whole.index(max(whole))],
        "saved_bytes": max(whole) - max(_totals(changes, tuple(avoided))),
    }


# === u04-oom
# What is free after a request that failed, under four fixes.


OOM_NAMES = ("error", "live", "run")
OOM_WORKED = (
    {"requested": 80, "free": 70, "reserved": 300, "allocated": 280},
    {
        "weights": 40,
        "gathered weights": 16,
        "layer inputs": 20,
        "layers": 90,
        "bf16 logits": 30,
        "fp32 logits": 80,
        "others": 4,
    },
    {"num_layers": 6, "num_checkpointed": 2, "num_chunks": 4, "step": 1},
)
OF_WEIGHTS = ("weights", "gathered weights")
BF16, FP32 = torch.bfloat16, torch.float32

Numbers = dict[str, int]


def oom_cases(seed: int) -> list[Case]:
    """Errors in the loss of made-up models, in the first step and later; the worked one first."""
    rng = random.Random(seed)
    cases = [named(OOM_NAMES, OOM_WORKED)]
    return cases + [_failed(rng, number) for number in range(24)]


def _failed(rng: random.Random, number: int) -> Case:
    """A model of some layers, some of them checkpointed, whose loss asks for its logits again."""
    tokens, hidden = 64 * rng.randint(4, 64), 32 * rng.randint(2, 40)
    layers = rng.randint(3, 40)
    checkpointed = (rng.randint(1, layers - 1), layers, 1)[number % 5 % 3]
    chunks = rng.choice((2, 4, 8, 16))
    vocabulary = 64 * rng.randint(10, 900)
    live = {
        "weights": 2 * layers * hidden * rng.randint(2, 9) * hidden,
        "gathered weights": 4 * hidden * hidden * rng.randint(1, 9),
        "layer inputs": checkpointed * _bytes(tokens * hidden, BF16),
        "layers": (layers - checkpointed) * _bytes(tokens * hidden, BF16) * rng.randint(9, 34),
        "bf16 logits": _bytes(tokens * vocabulary, BF16),
        "fp32 logits": _bytes(tokens * vocabulary, FP32),
        "others": rng.randint(1, 3) * _bytes(tokens * hidden, BF16),
    }
    allocated = sum(live.values())
    requested = live[("fp32 logits", "bf16 logits")[number % 4 == 3]]
    error = {
        "requested": requested,
        "free": requested - 512 * rng.randint(1, max(1, requested // 600)),
        "reserved": allocated + 512 * rng.randint(0, requested // 900),
        "allocated": allocated,
    }
    run = {
        "num_layers": layers,
        "num_checkpointed": checkpointed,
        "num_chunks": chunks,
        "step": (1, 2, rng.randint(3, 99))[number % 3],
    }
    return named(OOM_NAMES, (error, live, run))


def _bytes(count: int, dtype: torch.dtype) -> int:
    return torch.empty(count, dtype=dtype, device="meta").nbytes


@declares_check(
    "u04-oom",
    oom_cases,
    labels={
        "expandable": "bytes left with expandable segments",
        "half_batch": "bytes left with half the batch",
        "checkpoint_all": "bytes left with every layer checkpointed",
        "chunked_loss": "bytes left with the loss in chunks",
    },
    fallback="course_utils.formulas.memory_over_time.left_after_fixes",
)
def refilled(error: Numbers, live: Numbers, run: Numbers) -> Numbers:
    """The device filled anew under each fix: with what is live, holes, averages and the request."""
    capacity = error["free"] + error["reserved"]
    holes = error["reserved"] - error["allocated"]
    averages = [live["weights"]] * (2 if run["step"] > 1 else 0)
    requested, chunks = error["requested"], run["num_chunks"]

    def left(live: Numbers, requested: int, holes: int = holes) -> int:
        return capacity - sum([*live.values(), *averages, holes, requested])

    halved = {name: size // (1 if name in OF_WEIGHTS else 2) for name, size in live.items()}
    one_input = live["layer inputs"] // run["num_checkpointed"]
    only_inputs = live | {"layers": 0, "layer inputs": sum([one_input] * run["num_layers"])}
    one_chunk = live | {"fp32 logits": live["fp32 logits"] // chunks}
    return {
        "expandable": left(live, requested, holes=0),
        "half_batch": left(halved, requested // 2),
        "checkpoint_all": left(only_inputs, requested),
        "chunked_loss": left(one_chunk, requested // chunks),
    }
