"""Check of two partial results of attention put together."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, any_of, edited
from autograder.exercises.u06.online import ANSWERS
from autograder.observing.checksums import checksum
from autograder.observing.u06 import merge
from autograder.observing.u06.merge import BY_HAND, SCENARIOS

NAMES = ("scenario", "kind", "rows", "first_keys", "other_keys", "width")
KINDS = {
    "ordinary": ("ordinary",),
    "extreme": ("high", "low", "far apart"),
    "empty": ("no key in the first", "no key in the other", "no key at all"),
}


def merge_cases(seed: int) -> list[Case]:
    """Every kind with more keys in the first part, and with more in the other."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [("ordinary", BY_HAND, 1, 2, 1, 1)]
    for scenario, kinds in KINDS.items():
        for number in range(7):
            few, many = rng.randint(1, 4), rng.randint(6, 12)
            keys = (few, many) if number % 2 else (many, few)
            sizes = (rng.randint(3, 6), *keys, rng.randint(2, 4))
            cases.append((scenario, kinds[number % len(kinds)], *sizes))
    return [dict(zip(NAMES, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Attention over all keys at once."""
    out, lse = merge.exact(*merge.scores_and_values(case))
    return {
        "wrong_rows": 0,
        "wrong_lse": 0,
        "result_checksum": checksum(out, out),
        "lse_checksum": checksum(lse, lse),
        "changed_inputs": 0,
        "out": out,
        "lse": lse,
    }


# Places of the model answer.
LSE, SHIFT = "torch.logaddexp(lse_a, lse_b)", "torch.where(lse == -torch.inf, 0.0, lse)"
SHARE_A, SHARE_B = "torch.exp(lse_a - shift)", "torch.exp(lse_b - shift)"
OUT = "share_a * out_a + share_b * out_b"

EDITS = (
    Edit(
        "The log-sum-exp is right, and both parts count alike. Which of them saw the larger "
        "scores?",
        {OUT: "(out_a + out_b) / 2"},
    ),
    Edit(
        "The log-sum-exp is right, and the shares of the two parts sum to two. What does each "
        "part have of the whole sum?",
        {OUT: "out_a + out_b"},
    ),
    Edit(
        "The log-sum-exp is right, and each part has the share of the other. Which is which?",
        {OUT: "share_b * out_a + share_a * out_b"},
    ),
    *any_of(
        "Log-sum-exps are not sums. What do you have to take of one to get the sum that it "
        "stands for?",
        {SHARE_A: "(lse_a / (lse_a + lse_b))", SHARE_B: "(lse_b / (lse_a + lse_b))"},
        {SHARE_A: "(lse_a / lse)", SHARE_B: "(lse_b / lse)"},
    ),
    Edit(
        "Right but for scores far from zero. What is exp(2000), and what may be taken off both "
        "log-sum-exps first?",
        {LSE: "torch.log(torch.exp(lse_a) + torch.exp(lse_b))"},
        points=1.0,
    ),
    Edit(
        "Right but for rows that no part has a key for. What is minus infinity minus minus "
        "infinity?",
        {SHIFT: "lse"},
        points=1.0,
    ),
    Edit(
        "The new log-sum-exp is not right. Do sums of exponentials add or multiply when two sets "
        "of keys come together?",
        {LSE: "lse_a + lse_b"},
    ),
    Edit(
        "The new log-sum-exp is one of the old ones. How large are both sums together?",
        {LSE: "torch.maximum(lse_a, lse_b)"},
    ),
    Edit(
        "The result is right, and its log-sum-exp is that of one part. What will the next merge "
        "take this result for?",
        {f"{OUT}, lse": f"{OUT}, lse_b"},
    ),
    Edit(
        "The result is right, and a partial result is other numbers afterwards. Which of your "
        "operations writes into the tensor that it is called on?",
        {OUT: "out_a.mul_(share_a).add_(share_b * out_b)"},
        shows=("changed_inputs",),
    ),
    Edit(
        "Right but for scores far from zero. What is exp(2000), and of which difference could you "
        "take the exponential?",
        {SHARE_A: "(lse_a.exp() / lse.exp())", SHARE_B: "(lse_b.exp() / lse.exp())"},
        points=0.5,
    ),
)

CHECK = Check(
    cases=merge_cases,
    observe=merge.observe,
    judge=Behaviour(
        measured,
        *edited("u06-merge", EDITS, observe=merge.observe),
        summarise=merge.summarise,
        scenarios=SCENARIOS,
        labels=merge.LABELS,
        questions={
            "changed_inputs": "Which of your operations writes into the tensor that it is called "
            "on?",
            "extreme": "Right where scores are small. Of which numbers do you take the "
            "exponential, and how large can they become in a row?",
            "empty": "A row has no key in one of the parts, or in both. What are minus infinity "
            "minus minus infinity, and the log-sum-exp of no key at all?",
        },
    ),
    fallback="course_utils.reference.online_softmax.merge",
    answers=ANSWERS,
)
