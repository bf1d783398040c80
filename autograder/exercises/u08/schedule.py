"""Check of a run's steps when its batch only grows with the tokens seen."""

import math
import random
from collections.abc import Sequence

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas.batch_size import num_steps

Schedule = Sequence[tuple[int, int]]


def schedule_cases(seed: int) -> list[Case]:
    """One stage and several, some never reached; steps that end on a boundary or cross it."""
    rng = random.Random(seed)
    cases: list[tuple[list[tuple[int, int]], int]] = [([(0, 16), (40, 32)], 100)]
    cases += [([(0, batch)], rng.randint(5, 99) * batch + rest) for batch, rest in ((7, 0), (9, 4))]
    for num_stages in (2, 2, 2, 3, 3, 3, 4, 4, 5):
        for is_even in (True, False):
            cases.append(_stages(rng, num_stages, is_even))
    for _ in range(3):
        cases.append(_with_a_short_stage(rng))
        cases.append(_with_two_short_stages(rng))
    for num_stages in (2, 3, 4):
        schedule, _ = _stages(rng, num_stages, is_even=False)
        cases.append((schedule, rng.randint(schedule[-1][0] // 3, 2 * schedule[-1][0] // 3)))
    return [{"schedule": schedule, "total_tokens": total} for schedule, total in cases]


def _stages(
    rng: random.Random, num_stages: int, is_even: bool
) -> tuple[list[tuple[int, int]], int]:
    """Stages of many steps each, with or without a step that crosses a boundary."""
    schedule: list[tuple[int, int]] = []
    start, batch = 0, rng.randint(8, 12)
    for _ in range(num_stages):
        schedule.append((start, batch))
        start += rng.randint(6, 20) * batch + (0 if is_even else rng.randint(1, batch // 2))
        batch *= rng.randint(2, 3)
    return schedule, start


def _with_a_short_stage(rng: random.Random) -> tuple[list[tuple[int, int]], int]:
    """A stage so short that a step of the stage before jumps over it."""
    batch = rng.randint(20, 40)
    start = rng.randint(4, 9) * batch + 1
    end = start + rng.randint(2, batch // 3)
    after = (start // batch + 1) * batch  # where the step that jumps over it ends
    total = after + 4 * batch * rng.randint(3, 8) - rng.randrange(batch)
    return [(0, batch), (start, 2 * batch), (end, 4 * batch)], total


def _with_two_short_stages(rng: random.Random) -> tuple[list[tuple[int, int]], int]:
    """Two stages that one step jumps over."""
    schedule, total = _with_a_short_stage(rng)
    start, batch = schedule[-1]
    return [*schedule, (start + 1, 2 * batch)], total


def counted_steps(schedule: Schedule, total_tokens: int) -> int:
    """The number of steps, by taking them one after the other."""
    seen = steps = 0
    while seen < total_tokens:
        seen += [batch for start, batch in schedule if start <= seen][-1]
        steps += 1
    return steps


def _never_early(schedule: Schedule, total: int) -> int:
    """Every stage but the last runs to its own end, even after the end of the run."""
    steps = seen = 0
    for n, (_, batch) in enumerate(schedule):
        end = schedule[n + 1][0] if n + 1 < len(schedule) else total
        count = max(0, -(-(end - seen) // batch))
        steps, seen = steps + count, seen + count * batch
    return steps


def _lengths(schedule: Schedule, total: int) -> list[tuple[int, int]]:
    """Tokens and batch of each stage, as if every stage began where the schedule says."""
    ends = [*(min(start, total) for start, _ in schedule[1:]), total]
    stages = zip(schedule, ends, strict=True)
    return [(end - start, batch) for (start, batch), end in stages if end > start]


def _early(schedule: Schedule, total: int) -> int:
    """A step that would cross a boundary already has the next stage's batch."""
    seen = steps = 0
    while seen < total:
        batch = [batch for start, batch in schedule if start <= seen][-1]
        batch = [size for start, size in schedule if start < seen + batch][-1]
        seen, steps = seen + batch, steps + 1
    return steps


def _late(schedule: Schedule, total: int) -> int:
    """A step that begins on a boundary still has the batch of the stage before."""
    seen = steps = 0
    while seen < total:
        seen += [batch for start, batch in schedule if start < seen or start == 0][-1]
        steps += 1
    return steps


def _one_stage_on(schedule: Schedule, total: int) -> int:
    """No step advances by more than one stage."""
    seen = steps = stage = 0
    while seen < total:
        if stage + 1 < len(schedule) and schedule[stage + 1][0] <= seen:
            stage += 1
        seen, steps = seen + schedule[stage][1], steps + 1
    return steps


def _floored(schedule: Schedule, total: int) -> int:
    """Whole steps up to each boundary; the next stage begins where they end."""
    seen = steps = 0
    for n, (_, batch) in enumerate(schedule):
        end = min(total, schedule[n + 1][0]) if n + 1 < len(schedule) else total
        count = max(0, (end - seen) // batch)
        seen, steps = seen + count * batch, steps + count
    return steps


def _one_step_more(schedule: Schedule, total: int) -> int:
    seen = steps = 0
    while seen <= total:
        seen += [batch for start, batch in schedule if start <= seen][-1]
        steps += 1
    return steps


CHECK = Check(
    cases=schedule_cases,
    reference=num_steps,
    judge=EqualTo(
        counted_steps,
        Mistake(
            "Your runs end too late where the schedule has stages that they never reach. What does "
            "the last argument say about a stage that begins behind it?",
            _never_early,
        ),
        Mistake(
            "You use the first batch for the whole run. When does the next one begin?",
            lambda schedule, total: -(-total // schedule[0][1]),
        ),
        Mistake(
            "You use the last batch for the whole run. Which one has a run at its first token?",
            lambda schedule, total: -(-total // schedule[-1][1]),
        ),
        Mistake(
            "You throw away what is left of each stage. What happens to tokens that fill no whole "
            "step before the boundary?",
            lambda schedule, total: sum(tokens // b for tokens, b in _lengths(schedule, total)),
        ),
        Mistake(
            "Where a step passes over a whole stage you go through it all the same. Which batch "
            "is due after such a step?",
            _one_stage_on,
        ),
        Mistake(
            "No step of yours crosses a boundary or the end of the run. Which batch has a step "
            "that begins before it, and who takes the tokens that are left?",
            _floored,
        ),
        Mistake(
            "You round each stage up and begin the next one at its boundary. How many tokens of "
            "the next stage has the step that crossed it seen already?",
            lambda schedule, total: sum(-(-tokens // b) for tokens, b in _lengths(schedule, total)),
        ),
        Mistake(
            "Your stages are fractions of steps that you round at the end. Can a step be "
            "taken partly with one batch and partly with the next?",
            lambda schedule, total: math.ceil(
                sum(tokens / b for tokens, b in _lengths(schedule, total))
            ),
        ),
        Mistake(
            "A step that would cross a boundary takes the next stage's batch with you. Which batch "
            "is due when it begins?",
            _early,
        ),
        Mistake(
            "A step that begins exactly on a boundary takes the old batch with you. From which "
            "token on is the new one due?",
            _late,
        ),
        Mistake(
            "You take one step more where the tokens are just used up. Is anything left to see?",
            _one_step_more,
        ),
    ),
)
