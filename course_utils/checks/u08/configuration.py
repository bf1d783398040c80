"""Check of a configuration: devices, micro-batch and accumulation for a batch given in tokens."""

import random
from collections.abc import Callable
from typing import Any

from course_utils.checks.check import Case, Check
from course_utils.checks.judges import EqualTo, Mistake

FIELDS = ("global_batch_tokens", "seq_len", "num_devices", "max_micro_batch")
NAMES = ("micro_batch_size", "num_accumulation_steps", "tokens_per_step")


def configuration(
    global_batch_tokens: int, seq_len: int, num_devices: int, max_micro_batch: int
) -> dict[str, int]:
    """The course's own: sequences of each device first, then their largest divisor that fits."""
    each = global_batch_tokens // (seq_len * num_devices)
    b = next(size for size in range(min(max_micro_batch, each), 0, -1) if each % size == 0)
    return _named(b, each // b, num_devices * each * seq_len)


def _named(*values: int) -> dict[str, int]:
    return dict(zip(NAMES, values, strict=True))


def configuration_cases(seed: int) -> list[Case]:
    """Batches that come out even and that do not; one device; a prime; all fits; one fits."""
    rng = random.Random(seed)
    cases = [_case(100, 4, 2, 5)]
    for num_devices in (1, 2, 3, 4, 8):
        for each, largest in ((12, 8), (30, 7), (7, 4), (rng.randint(20, 60), rng.randint(3, 12))):
            seq_len = rng.choice((16, 21, 64, 4096))
            left_over = rng.choice((0, seq_len // 2, seq_len * num_devices - 1))
            tokens = seq_len * num_devices * each + left_over
            cases.append(_case(tokens, seq_len, num_devices, largest))
    cases.append(_case(4096 * 4 * 6 + 4095, 4096, 4, 32))
    cases.append(_case(2048 * 4 * 5, 2048, 4, 1))
    return cases


def _case(*values: int) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def tried(
    global_batch_tokens: int, seq_len: int, num_devices: int, max_micro_batch: int
) -> dict[str, int]:
    """The best of all micro-batches and accumulations that do not go over the batch."""
    best = (0, 0, 0)
    for b in range(1, max_micro_batch + 1):
        steps, tokens = 0, 0
        while tokens + num_devices * b * seq_len <= global_batch_tokens:
            steps, tokens = steps + 1, tokens + num_devices * b * seq_len
        best = max(best, (tokens, b, steps))
    tokens, b, steps = best
    return _named(b, steps, tokens)


def _each(tokens: int, s: int, devices: int, largest: int) -> int:
    return tokens // s // devices


def _largest_divisor(number: int, largest: int) -> int:
    return max(b for b in range(1, max(1, largest) + 1) if number % b == 0)


def _filled(rounded_up: bool) -> Callable[..., dict[str, int]]:
    """The largest micro-batch, whether it divides or not."""

    def formula(tokens: int, s: int, devices: int, largest: int) -> dict[str, int]:
        each = _each(tokens, s, devices, largest)
        b = min(largest, each)
        steps = -(-each // b) if rounded_up else each // b
        return _named(b, steps, devices * b * steps * s)

    return formula


def _as_sequences(tokens: int, s: int, devices: int, largest: int) -> dict[str, int]:
    each = tokens // devices
    b = _largest_divisor(each, min(largest, 10**4))
    return _named(b, each // b, devices * each * s)


def _as_one_device(tokens: int, s: int, devices: int, largest: int) -> dict[str, int]:
    b = _largest_divisor(tokens // s, largest)
    return {"micro_batch_size": b, "num_accumulation_steps": tokens // s // b}


def _shared_steps(tokens: int, s: int, devices: int, largest: int) -> dict[str, int]:
    return {"num_accumulation_steps": tokens // s // tried(tokens, s, devices, largest)[NAMES[0]]}


def _only(name: str, formula: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda *values: {name: formula(*values)}


def _b(*values: int) -> int:
    return tried(*values)["micro_batch_size"]


CONFIGURATION = Check(
    cases=configuration_cases,
    reference=configuration,
    judge=EqualTo(
        tried,
        Mistake(
            "Your batch has as many sequences as it should have tokens. How many tokens is one of "
            "them?",
            _as_sequences,
        ),
        Mistake(
            "Your micro-batch is the largest that fits, and it does not divide what a device has "
            "to do, so that tokens get lost. Which sizes leave nothing over?",
            _filled(rounded_up=False),
        ),
        Mistake(
            "Your micro-batch is the largest that fits, and it does not divide what a device has "
            "to do, so that the step is larger than asked for. Which sizes leave nothing over?",
            _filled(rounded_up=True),
        ),
        Mistake(
            "This is right for one device that does all the work. How many sequences are left to "
            "each of them?",
            _as_one_device,
        ),
        Mistake(
            "Your passes are those of all devices one after the other. How many of them does each "
            "device make?",
            _shared_steps,
        ),
        Mistake(
            "These are the tokens of one pass of one device. How many devices, and how many "
            "passes, make a step?",
            _only("tokens_per_step", lambda *v: _b(*v) * v[1]),
        ),
        Mistake(
            "These are the tokens of one pass of all devices. How many passes make a step?",
            _only("tokens_per_step", lambda *v: v[2] * _b(*v) * v[1]),
        ),
        Mistake(
            "These are the tokens of one device. How many devices work on a step?",
            _only("tokens_per_step", lambda *v: _each(*v) * v[1]),
        ),
        Mistake(
            "A step has the sequences that you say. How many tokens are they?",
            _only("tokens_per_step", lambda *v: _each(*v) * v[2]),
        ),
        Mistake(
            "You give back the tokens that were asked for. How many does a step of whole "
            "sequences, the same number for each device, really have?",
            _only("tokens_per_step", lambda *v: v[0]),
        ),
        Mistake(
            "You count whole sequences, and they do not come out even over the devices. How many "
            "are left when each device has the same number?",
            _only("tokens_per_step", lambda *v: v[0] // v[1] * v[1]),
        ),
        Mistake(
            "With one sequence at a time it always comes out even, and slowly. Is there a larger "
            "micro-batch that does too?",
            lambda *v: {"micro_batch_size": 1, "num_accumulation_steps": _each(*v)},
        ),
    ),
)
