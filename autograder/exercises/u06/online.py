"""Check of a softmax-weighted sum over blocks that come one at a time."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, any_of, edited
from autograder.observing.checksums import checksum
from autograder.observing.u06 import online
from autograder.observing.u06.online import BY_HAND, KINDS

ANSWERS = ("course_utils.reference.online_softmax", "course_utils.reference.tiled_attention")
NAMES = ("scenario", "kind", "rows", "block_lengths", "width")


def online_cases(seed: int) -> list[Case]:
    """Every kind of scores with equal and unequal blocks; the case by hand first."""
    rng = random.Random(seed)
    cases = [("ordinary", BY_HAND, 1, [2, 1], 1)]
    for scenario, kinds in KINDS.items():
        for number in range(8):
            kind = kinds[number % len(kinds)]
            lengths = _equal(rng) if number % 2 else [rng.randint(1, 5) for _ in range(5)]
            if scenario == "ordinary" and number == 4:
                lengths = [rng.randint(3, 9)]
            cases.append((scenario, kind, rng.randint(3, 6), lengths, rng.randint(2, 4)))
    return [dict(zip(NAMES, case, strict=True)) for case in cases]


def _equal(rng: random.Random) -> list[int]:
    """Equal blocks, and a shorter last one."""
    length = rng.randint(3, 5)
    return [length] * rng.randint(3, 5) + [rng.randint(1, length - 1)]


def measured(**case: Any) -> dict[str, Any]:
    """The softmax over all keys at once; a row without keys has zeros and minus infinity."""
    scores, values = online.inputs_of(case)
    has_keys = (scores > -torch.inf).any(1, keepdim=True)
    out = torch.where(has_keys, scores, 0.0).softmax(1) @ values * has_keys
    lse = scores.logsumexp(1)
    return {
        "blocks_too_many": 0,
        "wrong_rows": 0,
        "wrong_lse": 0,
        "result_checksum": checksum(out, out),
        "lse_checksum": checksum(lse, lse),
        "out": out,
        "lse": lse,
    }


# Places of the model answer.
START = "scores.new_full((len(scores), 1), -torch.inf)"
HIGHER = "torch.maximum(maximum, scores.amax(1, keepdim=True))"
SHIFT = "torch.where(higher == -torch.inf, 0.0, higher)"
SHRINK, WEIGHTS = "torch.exp(maximum - shift)", "torch.exp(scores - shift)"
TOTAL, OUT = "total * shrink + weights.sum", "out * shrink + weights @ values"
DIVIDED, LSE = "out / torch.where(total > 0, total, 1.0)", "(maximum + total.log())[:, 0]"

EDITS = (
    *any_of(
        "What was added earlier was measured against an older maximum. What has to happen to it "
        "when the maximum grows?",
        {TOTAL: "total + weights.sum"},
        {OUT: "out + weights @ values"},
    ),
    *any_of(
        "Your old sums grow when the maximum grows. Is the factor that brings them to the new "
        "maximum above one or below?",
        {SHRINK: "torch.exp(shift - maximum)"},
        {SHRINK: "torch.where(maximum == -torch.inf, 0.0, torch.exp(shift - maximum))"},
    ),
    Edit(
        "Wrong only where an earlier block held the largest score by far. Which scores is your "
        "maximum the largest of?",
        {HIGHER: "scores.amax(1, keepdim=True)"},
        points=1.0,
    ),
    Edit(
        "Wrong where every score of a row is very low. Is what your maximum starts from never "
        "above a score?",
        {START: "scores.new_full((len(scores), 1), 0.0)"},
        points=2.0,
    ),
    Edit(
        "You subtract nothing from the scores. What is exp(900), what is exp(-900), and what may "
        "be subtracted from a whole row without changing its softmax?",
        {HIGHER: "torch.zeros_like(maximum)"},
        points=2.0,
    ),
    Edit(
        "Wrong where one row lies far below another. Does each row have a maximum of its own?",
        {HIGHER: "torch.maximum(maximum, scores.amax())"},
        points=2.0,
    ),
    Edit(
        "A row that has seen no key yet has the maximum minus infinity. What is minus infinity "
        "minus minus infinity, and what could you subtract from such a row instead?",
        {SHIFT: "higher"},
        points=2.0,
    ),
    Edit(
        "Right but for rows without any key. What is zero divided by zero?",
        {DIVIDED: "out / total"},
        points=2.0,
    ),
    Edit(
        "Every result is a little too small. Which row has a sum so small that something has to "
        "be added to it?",
        {DIVIDED: "out / (total + 1e-6)"},
    ),
    Edit(
        "The numbers are right, and all blocks were in memory together. How can you take one "
        "block, use it, and only then ask for the next?",
        {"in blocks:": "in list(blocks):"},
    ),
    Edit("What do the weights of a row have to sum to in the end?", {DIVIDED: "out"}),
    Edit(
        "Your result is divided more than once. At which moment is the whole sum known?",
        {OUT: f"({OUT}) / torch.where(total > 0, total, 1.0)"},
    ),
    Edit(
        "The result is right, its log-sum-exp is not. What was subtracted from the scores before "
        "the sum?",
        {LSE: "total.log()[:, 0]"},
    ),
    Edit(
        "The result is right, its log-sum-exp is not. Which function turns a sum of exponentials "
        "back into a score?",
        {LSE: "(maximum + total)[:, 0]"},
    ),
    Edit(
        "The result is right; in the place of the log-sum-exp stands the maximum. Which of the "
        "two tells how large all scores are together?",
        {LSE: "maximum[:, 0]"},
    ),
    Edit(
        "The numbers of the log-sum-exp are right. Which shape should it have?",
        {LSE: "maximum + total.log()"},
    ),
    Edit(
        "Only the last block counts. Where do the earlier ones stand in your sums?",
        {TOTAL: "weights.sum", OUT: "weights @ values"},
    ),
)

CHECK = Check(
    cases=online_cases,
    observe=online.observe,
    judge=Behaviour(
        measured,
        *edited("u06-online", EDITS, observe=online.observe),
        summarise=online.summarise,
        scenarios=tuple(KINDS),
        labels=online.LABELS,
        questions={
            "blocks_too_many": "Earlier blocks are still in memory. Which of your names holds one "
            "when the next one comes?",
            "extreme": "Right where scores are small. Of which numbers do you take the "
            "exponential, and how large or small can they become?",
            "masked": "A row may see no key in a block, or in none. What are minus infinity minus "
            "minus infinity, and what does such a row keep for the blocks to come?",
        },
    ),
    fallback="course_utils.reference.online_softmax.online_softmax",
    answers=ANSWERS,
)
