"""Check of a configuration: devices, micro-batch and accumulation for a batch given in tokens."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited

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


EACH, LARGEST = "global_batch_tokens // seq_len // num_devices", "min(max_micro_batch, sequences_"
SEARCH = "while sequences_each % b:\n        b -= 1"
PASSES, TOKENS = ": sequences_each // b", "num_devices * sequences_each * seq_len"

TOKENS_LOST = (
    "Your micro-batch is the largest that fits, and it does not divide what a device has to do, so "
    "that tokens get lost. Which sizes leave nothing over?"
)
ONE_DEVICE = (
    "This is right for one device that does all the work. How many sequences are left to each of "
    "them?"
)
OTHER_TOKENS = {
    "b * seq_len": (
        "These are the tokens of one pass of one device. How many devices, and how many passes, "
        "make a step?"
    ),
    "num_devices * b * seq_len": (
        "These are the tokens of one pass of all devices. How many passes make a step?"
    ),
    "sequences_each * seq_len": (
        "These are the tokens of one device. How many devices work on a step?"
    ),
    "num_devices * sequences_each": (
        "A step has the sequences that you say. How many tokens are they?"
    ),
    "global_batch_tokens": (
        "You return the requested tokens. How many does a step of whole sequences, the same number "
        "for each device, really have?"
    ),
    "global_batch_tokens // seq_len * seq_len": (
        "You count whole sequences, and they do not come out even over the devices. How many are "
        "left when each device has the same number?"
    ),
}
OF_ALL_DEVICES = (
    "Your micro-batch divides the sequences of all devices together. How many does one device "
    "process?"
)
OTHER_SEARCHES = {
    "b = max(1, *(n for n in range(1, max_micro_batch) if sequences_each % n == 0), 1)": (
        "Your search ends before the largest micro-batch that fits. What if just that one divides "
        "what a device has to do?"
    ),
    "while num_devices * sequences_each % b:\n        b -= 1": OF_ALL_DEVICES,
    "b = min(max_micro_batch, num_devices * sequences_each)\n"
    "    while num_devices * sequences_each % b:\n        b -= 1": OF_ALL_DEVICES,
    "b = math.gcd(sequences_each, max_micro_batch)": (
        "You take the greatest common divisor of what a device has to do and of what fits. Must b "
        "divide what fits?"
    ),
    "b = 2 ** int(math.log2(b))\n    while sequences_each % b:\n        b //= 2": (
        "Your micro-batches are powers of two. Is there a larger one that leaves nothing over?"
    ),
    "b = next((n for n in range(2, max_micro_batch + 1) if sequences_each % n == 0), 1)": (
        "You take the smallest divisor above one. Which end of the divisors is asked for?"
    ),
    "b = 1": (
        "With one sequence at a time it always comes out even, and slowly. Is there a larger "
        "micro-batch that does too?"
    ),
    "b = sequences_each": (
        "Everything goes in one pass, whatever fits. Which argument have you not used?"
    ),
    "while global_batch_tokens // seq_len % b:\n        b -= 1": OF_ALL_DEVICES,
}
HALVED = "while sequences_each % b:\n        b //= 2"
EDITS = (
    *(
        Edit(
            "You halve the micro-batch until nothing is left over. Which sizes do you skip on the "
            "way?",
            {SEARCH: HALVED, **largest},
            points=0.5,
        )
        for largest in ({}, {"min(max_micro_batch, sequences_each)": "max_micro_batch"})
    ),
    *(Edit(hint, {TOKENS: tokens}, points=1.0) for tokens, hint in OTHER_TOKENS.items()),
    Edit(
        "Your batch has as many sequences as it should have tokens. How many tokens is one of "
        "them?",
        {EACH: "global_batch_tokens // num_devices"},
    ),
    Edit(
        "Right but for the largest batch. A float keeps 53 bits of a number, about 16 digits. "
        "Where does your whole number become a float?",
        {EACH: "int(global_batch_tokens / seq_len / num_devices)"},
    ),
    Edit(
        TOKENS_LOST,
        {SEARCH: "pass", TOKENS: "num_devices * b * (sequences_each // b) * seq_len"},
    ),
    Edit(TOKENS_LOST, {SEARCH: "pass"}, points=0.5),
    Edit(
        "Your micro-batch is the largest that fits, and it does not divide what a device has to "
        "do, so that the step is larger than asked for. Which sizes leave nothing over?",
        {
            SEARCH: "num_passes = -(-sequences_each // b)",
            PASSES: ": num_passes",
            TOKENS: "num_devices * b * num_passes * seq_len",
        },
    ),
    Edit(ONE_DEVICE, {EACH: "global_batch_tokens // seq_len"}),
    Edit(
        ONE_DEVICE,
        {EACH: "global_batch_tokens // seq_len", TOKENS: "sequences_each * seq_len"},
    ),
    Edit(
        "Your passes are those of all devices one after the other. How many of them does each "
        "device make?",
        {PASSES: ": global_batch_tokens // seq_len // b"},
        points=1.0,
    ),
    Edit(
        "You give a sequence up where only a micro-batch of one would divide them all. Which comes "
        "first, more tokens or a larger micro-batch?",
        {
            SEARCH: "while b > 1 and all(sequences_each % n for n in range(2, b + 1)):\n"
            f"        sequences_each -= 1\n    {SEARCH}"
        },
    ),
    Edit(
        "You take the fewest passes, and their sequences do not always come out even. Which sizes "
        "of a micro-batch leave nothing over?",
        {
            SEARCH: "num_passes = -(-sequences_each // b)\n    b = sequences_each // num_passes",
            PASSES: ": num_passes",
        },
        points=0.5,
    ),
    *(
        Edit(
            "You take the fewest passes, and round their sequences up. Is b · m the share of a "
            "device?",
            {
                SEARCH: "num_passes = -(-sequences_each // b)\n"
                "    b = -(-sequences_each // num_passes)",
                PASSES: ": num_passes",
                **tokens,
            },
            points,
        )
        for tokens, points in (({}, 0.5), ({TOKENS: "num_devices * b * num_passes * seq_len"}, 0.0))
    ),
    Edit(
        "Your micro-batch may be as large as what fits on all devices together. On how many of "
        "them does one micro-batch run?",
        {LARGEST: "min(num_devices * max_micro_batch, sequences_"},
        points=0.5,
    ),
    Edit(
        "Both numbers are there, each under the other's name. Which of them is the size of a pass?",
        {PASSES: ": b", '"micro_batch_size": b': '"micro_batch_size": sequences_each // b'},
        points=0.5,
    ),
    Edit(
        "A step has more tokens than it may. In which direction do you round the sequences of a "
        "device?",
        {EACH: "-(-global_batch_tokens // (seq_len * num_devices))"},
    ),
    *(Edit(hint, {SEARCH: search}, points=0.5) for search, hint in OTHER_SEARCHES.items()),
)

CHECK = Check(
    cases=configuration_cases,
    judge=EqualTo(brute_force, *edited("u08-configure", EDITS)),
    fallback="course_utils.formulas.batch_size.configuration",
)
