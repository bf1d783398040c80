"""Check of a configuration: devices, micro-batch and accumulation for a batch given in tokens."""

import math
import random
from collections.abc import Callable
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.formulas.batch_size import configuration

FIELDS = ("global_batch_tokens", "seq_len", "num_devices", "max_micro_batch")
NAMES = ("micro_batch_size", "num_micro_batches", "tokens_per_step")


def configuration_cases(seed: int) -> list[Case]:
    """With and without a remainder; one device; a prime; room for all, for one, an exact fit."""
    rng = random.Random(seed)
    cases = [_case(100, 4, 2, 5)]
    for num_devices in (1, 2, 3, 8):
        any_size = (rng.randint(20, 60), rng.randint(3, 12))
        for each, largest in ((12, 8), (30, 7), (7, 4), (24, 6), any_size):
            seq_len = rng.choice((16, 21, 64, 4096))
            left_over = rng.choice((0, seq_len // 2, seq_len * num_devices - 1))
            tokens = seq_len * num_devices * each + left_over
            cases.append(_case(tokens, seq_len, num_devices, largest))
    cases.append(_case(4096 * 4 * 6 + 4095, 4096, 4, 32))
    cases.append(_case(2048 * 4 * 5, 2048, 4, 1))
    return cases


def _case(*values: int) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def _named(*values: int) -> dict[str, int]:
    return dict(zip(NAMES, values, strict=True))


def brute_force(
    global_batch_tokens: int, seq_len: int, num_devices: int, max_micro_batch: int
) -> dict[str, int]:
    """The best of all micro-batches and accumulations that do not exceed the batch."""
    best = (0, 0, 0)
    for b in range(1, max_micro_batch + 1):
        steps, tokens = 0, 0
        while tokens + num_devices * b * seq_len <= global_batch_tokens:
            steps, tokens = steps + 1, tokens + num_devices * b * seq_len
        best = max(best, (tokens, b, steps))
    tokens, b, steps = best
    return _named(b, steps, tokens)


def _sequences_each(tokens: int, s: int, devices: int, largest: int) -> int:
    return tokens // s // devices


def _largest_divisor(number: int, largest: int) -> int:
    return max(b for b in range(1, max(1, largest) + 1) if number % b == 0)


def _filled(rounded_up: bool) -> Callable[..., dict[str, int]]:
    """The largest micro-batch that fits, whether it divides or not."""

    def formula(tokens: int, s: int, devices: int, largest: int) -> dict[str, int]:
        each = _sequences_each(tokens, s, devices, largest)
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
    return {"micro_batch_size": b, "num_micro_batches": tokens // s // b}


def _with_size(
    size: Callable[[int, int], int], *, is_rounded_up: bool = False
) -> Callable[..., dict[str, int]]:
    """A micro-batch size from the sequences of a device and the most that fit."""

    def formula(tokens: int, s: int, devices: int, largest: int) -> dict[str, int]:
        each = _sequences_each(tokens, s, devices, largest)
        if is_rounded_up:
            each = -(-tokens // (s * devices))
        b = size(each, largest)
        made = _named(b, each // b, devices * each * s)
        return made if is_rounded_up else {name: made[name] for name in NAMES[:2]}

    return formula


def _power_of_two(each: int, largest: int) -> int:
    powers = [1 << n for n in range(largest.bit_length())]
    return max(b for b in powers if b <= largest and each % b == 0)


def _smallest_divisor(each: int, largest: int) -> int:
    return next((b for b in range(2, largest + 1) if each % b == 0), 1)


def _passes_first(tokens: int, s: int, devices: int, largest: int) -> dict[str, int]:
    """The fewest passes, then the micro-batch that they need, with or without a remainder."""
    each = _sequences_each(tokens, s, devices, largest)
    steps = -(-each // largest)
    return {"micro_batch_size": each // steps, "num_micro_batches": steps}


def _passes_of_all_devices(tokens: int, s: int, devices: int, largest: int) -> dict[str, int]:
    return {"num_micro_batches": tokens // s // _right_b(tokens, s, devices, largest)}


def _only(name: str, formula: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda *values: {name: formula(*values)}


def _right_b(*values: int) -> int:
    return brute_force(*values)["micro_batch_size"]


CHECK = Check(
    cases=configuration_cases,
    reference=configuration,
    judge=EqualTo(
        brute_force,
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
            _passes_of_all_devices,
        ),
        Mistake(
            "These are the tokens of one pass of one device. How many devices, and how many "
            "passes, make a step?",
            _only("tokens_per_step", lambda *v: _right_b(*v) * v[1]),
        ),
        Mistake(
            "These are the tokens of one pass of all devices. How many passes make a step?",
            _only("tokens_per_step", lambda *v: v[2] * _right_b(*v) * v[1]),
        ),
        Mistake(
            "These are the tokens of one device. How many devices work on a step?",
            _only("tokens_per_step", lambda *v: _sequences_each(*v) * v[1]),
        ),
        Mistake(
            "A step has the sequences that you say. How many tokens are they?",
            _only("tokens_per_step", lambda *v: _sequences_each(*v) * v[2]),
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
            "You take the fewest passes, and their sequences do not always come out even. Which "
            "sizes of a micro-batch leave nothing over?",
            _passes_first,
        ),
        Mistake(
            "Your search ends before the largest micro-batch that fits. What if just that one "
            "divides what a device has to do?",
            _with_size(lambda each, largest: _largest_divisor(each, largest - 1)),
        ),
        Mistake(
            "You take the greatest common divisor of what a device has to do and of what fits. "
            "Must b divide what fits?",
            _with_size(math.gcd),
        ),
        Mistake(
            "Your micro-batches are powers of two. Is there a larger one that leaves nothing over?",
            _with_size(_power_of_two),
        ),
        Mistake(
            "You take the smallest divisor above one. Which end of the divisors is asked for?",
            _with_size(_smallest_divisor),
        ),
        Mistake(
            "A step has more tokens than it may. In which direction do you round the sequences of "
            "a device?",
            _with_size(_largest_divisor, is_rounded_up=True),
        ),
        Mistake(
            "With one sequence at a time it always comes out even, and slowly. Is there a larger "
            "micro-batch that does too?",
            lambda *v: {"micro_batch_size": 1, "num_micro_batches": _sequences_each(*v)},
        ),
    ),
)
