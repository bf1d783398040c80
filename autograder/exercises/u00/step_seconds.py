"""Check of the seconds of a training step."""

import operator
import random
from fractions import Fraction
from itertools import accumulate

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import Edit, edited


def step_cases(seed: int) -> list[Case]:
    """One sequence and many, odd lengths, rates from a laptop's to a large cluster's.

    One count of FLOPs is more than 64 bits hold. At the end each size is changed by itself.
    """
    rng = random.Random(seed)

    def case(num_sequences: int, digits: int) -> Case:
        return {
            "num_sequences": num_sequences,
            "seq_len": rng.randrange(129, 8193, 2),
            "flops_per_token": rng.randint(10**8, 10**12),
            "flops_per_second": rng.randint(10**digits // 10, 10**digits),
        }

    worked = dict(zip(case(4, 14), (4, 1000, 6 * 10**9, 10**14), strict=True))
    batches = (1, 1, rng.randint(2, 64), rng.randint(65, 4096))
    cases = [case(size, digits) for size in batches for digits in (11, 13, 15, 17, 19)]
    largest = case(4096, 19) | {"seq_len": 8191, "flops_per_token": rng.randint(10**12, 2 * 10**12)}
    start, end = case(rng.randint(2, 64), 14), case(rng.randint(65, 128), 15)
    one_at_a_time = accumulate([start, *({name: each} for name, each in end.items())], operator.or_)
    return [worked, *cases, largest, *one_at_a_time]


def exact_step_seconds(
    num_sequences: int, seq_len: int, flops_per_token: int, flops_per_second: int
) -> float:
    """The number in exact fractions: the seconds of one token, added up."""
    one_token = Fraction(flops_per_token, flops_per_second)
    return float(sum([one_token * seq_len] * num_sequences))


TOKENS, TIME = "num_sequences * seq_len", "num_tokens * flops_per_token / flops_per_second"
UNITS = (
    "Your result is not in seconds. If you write the unit beside each number, which units are left?"
)
ROUNDED = (
    "Your answer is rounded, and some steps take far less than a second. How many of their "
    "digits are left?"
)
EDITS = (
    Edit(
        "You count sequences instead of tokens. How many tokens are in one sequence?",
        {TOKENS: "num_sequences"},
    ),
    Edit("That is the time for one sequence. How many are in the batch?", {TOKENS: "seq_len"}),
    Edit("That is the time for one token. How many tokens are in the batch?", {TOKENS: "1"}),
    Edit(
        "You add sequences and tokens. How many tokens are in 4 sequences of 1,000?",
        {TOKENS: "(num_sequences + seq_len)"},
    ),
    Edit(
        "seq_len enters your product twice. How many tokens are in one sequence?",
        {TOKENS: "num_sequences * seq_len**2"},
    ),
    *(
        Edit(
            "Your formula divides by num_sequences or seq_len. Should a step with more tokens "
            "take more time, or less?",
            {TOKENS: way},
        )
        for way in (
            "num_sequences / seq_len",
            "seq_len / num_sequences",
            "1 / (num_sequences * seq_len)",
        )
    ),
    Edit(
        "You use the speed of the worked example. Which argument gives the speed of another "
        "device?",
        {TIME: "num_tokens * flops_per_token / 10**14"},
    ),
    Edit(
        "You use the FLOPs per token of the worked example. Which argument gives those of "
        "another model?",
        {TIME: "num_tokens * 6 * 10**9 / flops_per_second"},
    ),
    Edit(
        "Your count of FLOPs overflowed 64 bits. Which of your objects has fixed-size integers?",
        {TIME: "((num_tokens * flops_per_token + 2**63) % 2**64 - 2**63) / flops_per_second"},
    ),
    Edit(
        "That is a count of FLOPs. What do you get when you divide a count by a rate?",
        {TIME: "num_tokens * flops_per_token"},
    ),
    Edit(
        "That is steps per second. How long does one step take?",
        {TIME: "flops_per_second / (num_tokens * flops_per_token)"},
    ),
    Edit(
        "That is tokens per second. At that rate, how long does the whole batch take?",
        {TIME: "flops_per_second / flops_per_token"},
    ),
    Edit(
        "Your units are FLOPs times FLOP/s, which is not a time. What should you divide by?",
        {TIME: "num_tokens * flops_per_token * flops_per_second"},
    ),
    Edit(
        "You divide tokens by FLOP/s. How many FLOPs does each token cost?",
        {TIME: "num_tokens / flops_per_second"},
    ),
    Edit(UNITS, {TIME: "num_tokens / flops_per_token / flops_per_second"}),
    Edit(UNITS, {TIME: "num_tokens * flops_per_second / flops_per_token"}),
    Edit(UNITS, {TIME: "flops_per_second / num_tokens * flops_per_token"}),
    *(
        Edit(
            f"Your number is in {unit}. Which unit does the exercise ask for?",
            {TIME: f"{TIME} {way}"},
        )
        for unit, way in (("milliseconds", "* 1000"), ("minutes", "/ 60"), ("hours", "/ 3600"))
    ),
    *(
        Edit(
            "Your division drops the remainder. What happens to a quarter of a second?", {TIME: way}
        )
        for way in (
            "num_tokens * flops_per_token // flops_per_second",
            "num_sequences * (seq_len * flops_per_token // flops_per_second)",
        )
    ),
    Edit(
        "Your device works through a whole number of tokens each second. Which division throws the "
        "rest away?",
        {TIME: "num_tokens / max(1, flops_per_second // flops_per_token)"},
    ),
    Edit(ROUNDED, {TIME: "-(-num_tokens * flops_per_token // flops_per_second)"}),
    *(Edit(ROUNDED, {TIME: f"round({TIME}, {places})"}) for places in range(7)),
    *(Edit(ROUNDED, {TIME: f"int({TIME} * {power}) / {power}"}) for power in (10, 100, 1000)),
)

CHECK = Check(
    cases=step_cases,
    judge=EqualTo(
        exact_step_seconds, *edited("u00-step-seconds", EDITS), relative_tolerance=PROMISED
    ),
)
