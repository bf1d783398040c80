"""Check of a configuration: devices, micro-batch and accumulation for a batch given in tokens."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import mistakes_of

FIELDS = ("global_batch_tokens", "seq_len", "num_devices", "max_micro_batch")
NAMES = ("micro_batch_size", "num_micro_batches", "tokens_per_step")


def configuration_cases(seed: int) -> list[Case]:
    """With and without a remainder; one device; a prime; room for all, for one, an exact fit.

    The last batch is beyond a float: its remainder is one token less than one more sequence each.
    """
    rng = random.Random(seed)
    cases = [_case(60, 4, 2, 5)]
    for num_devices in (1, 2, 3, 8):
        any_size = (rng.randint(20, 60), rng.randint(3, 12))
        for each, largest in ((12, 8), (30, 7), (7, 4), (24, 6), any_size):
            seq_len = rng.choice((16, 21, 64, 4096))
            left_over = rng.choice((0, seq_len // 2, seq_len * num_devices - 1))
            tokens = seq_len * num_devices * each + left_over
            cases.append(_case(tokens, seq_len, num_devices, largest))
    cases.append(_case(4096 * 4 * rng.randint(5, 30) + 4095, 4096, 4, 32))
    cases.append(_case(2048 * 4 * rng.randint(5, 30), 2048, 4, 1))
    seq_len = 64 * rng.randint(16, 64)
    cases.append(_case(seq_len * 2 * 22, seq_len, 2, 5))  # in the fewest passes 4, 4, 4, 4, 4 and 2
    seq_len, num_devices = (2**25 + rng.randrange(1, 99, 2) for _ in range(2))
    return [*cases, _case(seq_len * num_devices * 25 - 1, seq_len, num_devices, 9)]


def _case(*values: int) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def brute_force(
    global_batch_tokens: int, seq_len: int, num_devices: int, max_micro_batch: int
) -> dict[str, int]:
    """The best of all micro-batches, each accumulated as long as the batch allows."""
    pass_tokens = [num_devices * b * seq_len for b in range(1, max_micro_batch + 1)]
    tokens, b = max((global_batch_tokens // n * n, b) for b, n in enumerate(pass_tokens, 1))
    return dict(zip(NAMES, (b, tokens // pass_tokens[b - 1], tokens), strict=True))


CHECK = Check(
    cases=configuration_cases,
    judge=EqualTo(brute_force, *mistakes_of("u08-configure")),
    fallback="course_utils.formulas.batch_size.configuration",
)
