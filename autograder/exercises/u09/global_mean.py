"""Check of a rank's share of the mean loss over the targets of all ranks."""

import functools
import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, require_tensor
from autograder.exercises.u09.shared.on_ranks import most_calls, on_ranks
from course_utils.distributed import Comm
from course_utils.reference.gradient_sync import share_of_mean

SCENARIOS = ("ragged", "equal", "a rank without")
NUM_CASES_EACH = 5
LARGE = 2048  # sums of larger numbers that are 1 modulo 8 are not exact in 16 bits

SHARES = "the sum of all shares"
GRADIENT = "the gradient of that sum"
CALLS = "calls to the other ranks"
DEAD_ENDS = "ranks with a share from which backward cannot start"

# The sum of at most four quotients in float64.
ROUNDING = 1e-12


def _num_targets(scenario: str, num_ranks: int, is_large: bool, rng: random.Random) -> list[int]:
    possible = range(LARGE + 1, 4 * LARGE, 8) if is_large else range(1, 30)
    counts = rng.sample(possible, num_ranks)
    if scenario == "equal":
        return [counts[0]] * num_ranks
    if scenario == "a rank without":
        counts[rng.randrange(num_ranks)] = 0
    return counts


def share_cases(seed: int) -> list[Case]:
    """Each scenario on two to four ranks, with few targets and many.

    Equal numbers also on one rank; no targets at all.
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
    without = [[0] * num_ranks for num_ranks in (1, 2, 2, 3, 4)]
    return cases + [_case("a rank without", counts, [0.0] * len(counts)) for counts in without]


def _case(scenario: str, num_targets: list[int], summed_losses: list[float]) -> Case:
    return {"scenario": scenario, "num_targets": num_targets, "summed_losses": summed_losses}


def _observe_rank(comm: Comm, answer: Any, case: Case) -> tuple[float, float, bool]:
    """A rank's share, its gradient, and whether backward can start from it.

    The loss is proportional to the square of a weight of one.
    """
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    loss: Tensor = weight.square() * case["summed_losses"][comm.rank]
    share = require_tensor(answer(comm, loss, case["num_targets"][comm.rank]))
    if share.requires_grad:
        share.sum().backward()
    gradient = 0.0 if weight.grad is None else weight.grad.item()
    return share.sum().item(), gradient, share.requires_grad


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Shares and gradients, summed over the ranks, and what was communicated."""
    run = on_ranks(len(case["num_targets"]), _observe_rank, answer, case)
    shares, gradients, have_graphs = zip(*run.results, strict=True)
    needs_no_call = run.num_ranks == 1 or not any(case["num_targets"])
    return {
        SHARES: sum(shares),
        GRADIENT: sum(gradients),
        CALLS: max(most_calls(run), int(needs_no_call)),
        DEAD_ENDS: have_graphs.count(False),
    }


def wanted(**case: Any) -> dict[str, float]:
    """The mean of all targets' losses; the gradient of a square at one is twice it."""
    mean = _mean(**case)
    return {
        SHARES: mean,
        GRADIENT: 2 * mean,
        CALLS: 1,
        DEAD_ENDS: 0,
    }


def _mean(scenario: str, num_targets: list[int], summed_losses: list[float]) -> float:
    return sum(summed_losses) / max(1, sum(num_targets))


def _means(num_targets: list[int], summed_losses: list[float]) -> list[float]:
    """The mean of each rank by itself; nan without targets."""
    pairs = zip(summed_losses, num_targets, strict=True)
    return [loss / n if n else math.nan for loss, n in pairs]


def _with_rounded_quotient(
    scenario: str, num_targets: list[int], losses: list[float], *, twice: bool
) -> Case:
    """A quotient in float32 times the loss, or times the mean of the rank's own targets."""
    total = torch.tensor(max(1, sum(num_targets)))
    pairs = [(loss, n) for loss, n in zip(losses, num_targets, strict=True) if n]
    if twice:
        return {SHARES: sum(loss / n * float(n / total) for loss, n in pairs)}
    return {SHARES: sum(loss * float(1 / total) for loss, _ in pairs)}


def _with_count_in(dtype: torch.dtype) -> Callable[..., Case]:
    """Targets counted in low precision, one rank after the other."""

    def shares(scenario: str, num_targets: list[int], losses: list[float]) -> Case:
        counts = [torch.tensor(n, dtype=dtype) for n in num_targets]
        total = functools.reduce(torch.add, counts).item()
        return {SHARES: sum(loss / max(1, total) for loss in losses)}

    return shares


def _of_averaged_counts(scenario: str, num_targets: list[int], losses: list[float]) -> Case:
    """Too large by the number of ranks, with a quotient in float32."""
    average = float(torch.tensor(sum(num_targets)) / len(num_targets))
    return {SHARES: sum(loss / max(1e-9, average) for loss in losses)}


def _without_history(scenario: str, num_targets: list[int], losses: list[float]) -> Case:
    """Quotients of plain numbers and a count, in float32."""
    total = torch.tensor(sum(num_targets))
    shares = sum((loss / total).item() for loss in losses)
    return {SHARES: shares, GRADIENT: 0, DEAD_ENDS: len(losses)}


LOST_DIGITS = (
    "Right but for some digits, where there are many targets or none of the quotients comes out "
    "even. In which precision do you count, and in which do you divide?"
)

TOO_LARGE = (
    "Too large by a factor, the number of ranks. The shares are added up, not averaged: what do "
    "you multiply by it, or divide by it on the way?"
)

CHECK = Check(
    cases=share_cases,
    reference=share_of_mean,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "No rank has a target, and the share is not a number. What do you divide by then, and "
            "what would leave a sum of zero as it is?",
            lambda scenario, n, losses: {} if any(n) else {SHARES: math.nan},
        ),
        Mistake(
            "No rank has a target, and your zero is a new tensor, from which backward cannot "
            "start. How does a zero come from the loss that was given?",
            lambda scenario, n, losses: {} if any(n) else {GRADIENT: 0, DEAD_ENDS: len(n)},
        ),
        Mistake(
            "No rank has a target, the share is zero, and its gradient is not a number: backward "
            "goes through your division all the same. What could be divided by instead of zero?",
            lambda scenario, n, losses: {} if any(n) else {GRADIENT: math.nan},
        ),
        Mistake(LOST_DIGITS, functools.partial(_with_rounded_quotient, twice=True)),
        Mistake(LOST_DIGITS, functools.partial(_with_rounded_quotient, twice=False)),
        Mistake(LOST_DIGITS, _with_count_in(torch.float16)),
        Mistake(LOST_DIGITS, _with_count_in(torch.bfloat16)),
        Mistake(
            "The numbers are right, and backward cannot start from any share. What is left of a "
            "loss's history in a plain number?",
            _without_history,
        ),
        Mistake(
            "The shares are right, and the ranks talk twice. Of which number does each need the "
            "sum?",
            lambda *values: {SHARES: _mean(*values), CALLS: 2},
        ),
        Mistake(
            "The mean of the ranks' means: a target on a rank with few counts more than one on a "
            "rank with many. By which number is every target divided?",
            lambda scenario, n, losses: {SHARES: sum(_means(n, losses)) / len(n)},
        ),
        Mistake(
            "The sum of the ranks' means. Over how many targets does the mean of the whole batch "
            "go, and which of them does this rank not see?",
            lambda scenario, n, losses: {SHARES: sum(_means(n, losses))},
        ),
        Mistake(
            "Every rank gives the mean of all, and no gradient can flow from a loss that came over "
            "the links. What of the others does a rank need: their losses, or less?",
            lambda scenario, n, losses: {
                SHARES: len(n) * _mean("", n, losses),
                GRADIENT: 0,
                DEAD_ENDS: len(n),
            },
        ),
        Mistake(TOO_LARGE, lambda scenario, n, losses: {SHARES: len(n) * _mean("", n, losses)}),
        Mistake(TOO_LARGE, _of_averaged_counts),
        Mistake(
            "Too small by a factor, the number of ranks. The count is of all ranks already: "
            "what is left to divide by?",
            lambda scenario, n, losses: {
                SHARES: _mean("", n, losses) / len(n),
                CALLS: 1,
            },
        ),
        Mistake(
            "Too small by a factor, the number of ranks, and two calls. What does a count "
            "hold that is summed over all ranks a second time?",
            lambda scenario, n, losses: {
                SHARES: _mean("", n, losses) / len(n),
                CALLS: 2,
            },
        ),
        Mistake(
            "This is the sum over all targets. What makes a mean of it?",
            lambda scenario, n, losses: {SHARES: sum(losses)},
        ),
        Mistake(
            "The number is right, and backward cannot start from it: the share is a new tensor. "
            "How does it come from the loss that was given, also where that is zero?",
            lambda scenario, n, losses: {
                GRADIENT: 0,
                DEAD_ENDS: n.count(0) or len(n),
            },
        ),
        scenarios=SCENARIOS,
        relative_tolerance=ROUNDING,
    ),
)
