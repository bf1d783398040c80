"""Check of a rank's share of the mean loss over the targets of all ranks."""

import random
from collections.abc import Mapping

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.precision import tolerance
from autograder.exercises.model_answers import Edit, edited
from autograder.observing import replay
from autograder.observing.u09 import global_mean

SCENARIOS = ("ragged", "equal", "a rank without")
NUM_CASES_EACH = 5
# Two of them are more than 2**15, three less than fp16's largest; 1 modulo 8 is not exact in fp16.
LARGE = range(2**14 + 1, 21_000, 8)
# One is more than float32 counts, two are more than int32 does; rounded to float32 each loses 63.
HUGE = range(3 * 2**29 + 63, 2**31, 128)


def _num_targets(scenario: str, num_ranks: int, is_large: bool, rng: random.Random) -> list[int]:
    possible = LARGE if is_large else range(1, 30)
    counts = rng.sample(possible, num_ranks)
    if scenario == "equal":
        return [counts[0]] * num_ranks
    if scenario == "a rank without":
        counts[rng.randrange(num_ranks)] = 0
    return counts


def share_cases(seed: int) -> list[Case]:
    """Each scenario on two to four ranks, with few targets and many.

    Equal numbers also on one rank; no targets at all; billions of targets.
    """
    rng = random.Random(seed)
    cases = [_case("ragged", [3, 1], [6.0, 4.0])]
    for scenario in SCENARIOS:
        for number in range(NUM_CASES_EACH):
            is_large = number == NUM_CASES_EACH - 1
            num_ranks = 3 if is_large else rng.randint(2, 4)  # a third is not exact in a float
            if (scenario, number) == ("equal", 0):
                num_ranks = 1
            counts = _num_targets(scenario, num_ranks, is_large, rng)
            losses = [round(n * rng.uniform(1, 4), 3) for n in counts]
            cases.append(_case(scenario, counts, losses))
    huge = rng.sample(HUGE, 2)
    cases.append(_case("ragged", huge, [2.0 * huge[0], 3.0 * huge[1]]))
    without = [[0] * num_ranks for num_ranks in rng.sample(range(1, 17), 5)]
    return cases + [_case("a rank without", counts, [0.0] * len(counts)) for counts in without]


def _case(scenario: str, num_targets: list[int], summed_losses: list[float]) -> Case:
    return {"scenario": scenario, "num_targets": num_targets, "summed_losses": summed_losses}


def measured(scenario: str, num_targets: list[int], summed_losses: list[float]) -> dict[str, float]:
    """The mean of all targets' losses; the gradient of a square at one is twice it."""
    mean = sum(summed_losses) / max(1, sum(num_targets))
    return {
        "forged_calls": 0,
        "shares": mean,
        "gradient": 2 * mean,
        "calls": 1,
        "dead_ends": 0,
        "changed_losses": 0,
    }


def _by_shares(hint: str, *edits: Mapping[str, str], points: float = 0.0) -> list[Edit]:
    """Edits that are known by the sum of all shares."""
    return [Edit(hint, pieces, points, shows=("shares",)) for pieces in edits]


# The model answer's pieces.
COUNT, CALL = "torch.tensor(num_targets)", "comm.all_reduce(num_targets_of_all)"
TOTAL = "max(1, int(num_targets_of_all))"
SHARE, RETURN = f"summed_loss / {TOTAL}", "    return"

OVERFLOWS = (
    "With many targets your count is wrong, by a multiple of a power of two. What is the largest "
    "number that its type holds?"
)
CLAMPED = "num_targets_of_all.clamp(min=1)"
EDITS = (
    *_by_shares(
        "No rank has a target, and the share is not a number. What do you divide by then, and "
        "what would leave a sum of zero as it is?",
        {TOTAL: "num_targets_of_all"},
        points=1.0,
    ),
    Edit(
        "No rank has a target, and your zero is a new tensor, from which backward finds no "
        "weight. How does a zero come from the loss that was given?",
        {RETURN: "    if not num_targets_of_all:\n        return torch.zeros(())\n    return"},
        points=1.0,
    ),
    Edit(
        "No rank has a target, the share is zero, and its gradient is not a number: backward "
        "goes through your division all the same. What could be divided by instead of zero?",
        {SHARE: "(summed_loss / num_targets_of_all).nan_to_num(0)"},
        points=1.0,
    ),
    *_by_shares(
        OVERFLOWS,
        *(
            {COUNT: f"{COUNT}.to(torch.{dtype})", TOTAL: total}
            for dtype in ("int16", "int8", "uint8")
            for total in (TOTAL, "(int(num_targets_of_all) or 1)")
        ),
    ),
    *_by_shares(OVERFLOWS, {COUNT: f"{COUNT}.to(torch.int32)"}, points=1.0),
    *_by_shares(
        "With millions of targets your count is rounded. Up to which number does a float32 hold "
        "every whole number?",
        {COUNT: "torch.tensor(float(num_targets))"},
        points=1.0,
    ),
    *_by_shares(
        "A rank without targets is counted as if it had one. Which number is not to be zero: the "
        "count of each rank, or the sum of all?",
        {COUNT: "torch.tensor(max(1, num_targets))"},
        points=1.0,
    ),
    *(
        Edit(
            "The loss that was given is another number now. Who else may want to read it, and "
            "which operation writes into it?",
            pieces,
        )
        for pieces in (
            {SHARE: f"summed_loss.div_({TOTAL})"},
            {CALL: f"{CALL}\n    summed_loss.data /= {CLAMPED}", SHARE: "summed_loss * 1"},
        )
    ),
    *_by_shares(
        "Right but for some digits, where there are many targets or none of the quotients comes "
        "out even. In which precision do you count, and in which do you divide?",
        {SHARE: f"(summed_loss / max(1, num_targets)) * (num_targets / {CLAMPED})"},
        {SHARE: f"summed_loss * (1 / {CLAMPED})"},
        {COUNT: f"{COUNT}.half()", TOTAL: CLAMPED},
        {COUNT: f"{COUNT}.bfloat16()"},
    ),
    *(
        Edit(
            "The numbers are right, and backward cannot start from any share. What is left of a "
            "loss's history in a plain number?",
            {SHARE: share},
        )
        for share in (f"summed_loss.item() / {CLAMPED}", f"summed_loss.detach() / {TOTAL}")
    ),
    Edit(
        "The shares are right, and the ranks talk twice. Of which number does each need the sum?",
        {CALL: f"{CALL}\n    comm.all_reduce(summed_loss.detach().clone())"},
    ),
    *_by_shares(
        "The mean of the ranks' means: a target counts more on a rank with few targets. By which "
        "number is every target divided?",
        {CALL: "pass", TOTAL: "num_targets / comm.size"},
        {CALL: "pass", TOTAL: "max(1, num_targets) / comm.size"},
    ),
    *_by_shares(
        "The sum of the ranks' means. Over how many targets does the mean of the whole batch "
        "go, and which of them does this rank not see?",
        {CALL: "pass", TOTAL: "num_targets"},
        {CALL: "pass", TOTAL: "max(1, num_targets)"},
    ),
    Edit(
        "Every rank gives the mean of all, and no gradient can flow from a loss that came over "
        "the links. What of the others does a rank need: their losses, or less?",
        {
            CALL: f"{CALL}\n    summed_loss = summed_loss.detach().clone()\n"
            "    comm.all_reduce(summed_loss)"
        },
        shows=("shares", "gradient", "dead_ends"),
    ),
    Edit(
        "Every rank gives the whole mean, so that all shares together are too large by the number "
        "of ranks. Whose losses belong in the share of this rank?",
        {
            COUNT: "torch.tensor([summed_loss.item(), num_targets], dtype=torch.float64)",
            SHARE: "summed_loss + (\n        num_targets_of_all[0] / "
            "num_targets_of_all[1].clamp(min=1) - summed_loss\n    ).detach()",
        },
        shows=("shares", "gradient"),
    ),
    *_by_shares(
        "Too large by a factor, the number of ranks. The shares are added up, not averaged: what "
        "do you multiply by it, or divide by it on the way?",
        {SHARE: f"comm.size * {SHARE}"},
        {TOTAL: "(num_targets_of_all / comm.size).clamp(min=1e-9)"},
    ),
    Edit(
        "Too small by a factor, the number of ranks. The count is of all ranks already: "
        "what is left to divide by?",
        {SHARE: f"{SHARE} / comm.size"},
    ),
    Edit(
        "Too small by a factor, the number of ranks, and two calls. What does a count "
        "hold that is summed over all ranks a second time?",
        {CALL: f"{CALL}\n    {CALL}"},
    ),
    *_by_shares(
        "This is the sum over all targets. What makes a mean of it?", {SHARE: "summed_loss * 1"}
    ),
    Edit(
        "The number is right, but backward finds no weight from it: the share is a new tensor, "
        "and where a rank's hooks never run the others wait for it. How does a zero come from "
        "the loss that was given?",
        {RETURN: "    if num_targets == 0:\n        return torch.zeros(())\n    return"},
        points=1.0,
    ),
)

CHECK = Check(
    cases=share_cases,
    observe=global_mean.observe,
    judge=Behaviour(
        measured,
        *edited("u09-global-mean", EDITS, global_mean.observe),
        scenarios=SCENARIOS,
        relative_tolerance=tolerance(cancelled=4),
        labels={
            **replay.LABELS,
            "shares": "the sum of all shares",
            "gradient": "the gradient of that sum",
            "calls": "calls to the other ranks",
            "dead_ends": "ranks whose share is cut off from the loss",
            "changed_losses": "ranks whose summed loss has changed",
        },
        summarise=global_mean.summarise,
    ),
    fallback="course_utils.reference.gradient_sync.share_of_mean",
    answers=("course_utils.reference.gradient_sync.share_of_mean",),
)
