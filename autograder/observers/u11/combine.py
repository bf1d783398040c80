"""Results of attention over keys on several ranks, combined on all of them."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.checksums import checksum
from autograder.observers.comparing import num_changed, num_different
from autograder.observers.exact_attention import attend_exactly
from autograder.observers.on_ranks import calls_made, cluster_of, record_on_ranks
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.replay import forged, replay
from autograder.observers.tools import errors_as_data, require_tensor, undisturbed
from autograder.observers.u11.results import wrong_results
from course_utils.distributed import Comm

SCENARIOS = ("ordinary", "extreme")
WHAT_IS_NEEDED = "Which tensor goes into each of your calls, and how many numbers does it hold?"
PLAIN, HIGH, APART, NONE_HERE, NONE_AT_ALL = (
    "plain",
    "high",
    "ranks far apart",
    "a row without keys on a rank",
    "a row without keys",
)


def scores_and_values(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    """Scores (rows, keys) and values (keys, d) of each rank."""
    c, rows, keys, d = (case[name] for name in ("num_ranks", "rows", "keys_per_rank", "width"))
    scores = normal_numbers(90 + rows, *((rows, keys),) * c)
    values = normal_numbers(40 + d, *((keys, d),) * c)
    if case["kind"] in (HIGH, APART):
        first, step = (2000, 0) if case["kind"] == HIGH else (-950 * c, 1900)
        scores = [each + first + step * rank for rank, each in enumerate(scores)]
    if case["kind"] == NONE_HERE:
        scores[-1][0] = -torch.inf
    if case["kind"] == NONE_AT_ALL:
        for each in scores:
            each[-1] = -torch.inf
    return scores, values


def inputs_of(case: Case, rank: int) -> tuple[Tensor, Tensor]:
    """A rank's result over its own keys, and its log-sum-exp."""
    scores, values = scores_and_values(case)
    return attend_exactly(scores[rank], values[rank])


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """Each rank's result, its arguments afterwards, and all calls."""

    def on_rank(comm: Comm) -> dict[str, Any]:
        inputs = inputs_of(case, comm.rank)
        result = require_tensor(answer(comm, *inputs))
        return {"result": result.detach(), "inputs": list(inputs)}

    with undisturbed():
        return record_on_ranks(case["num_ranks"], on_rank)._asdict()


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Results beside the right one; calls and bytes, as many as are allowed or more."""
    run, forged_calls = replay(observed["logs"], cluster_of(case["num_ranks"]))
    calls, ranks = run.communications(), observed["ranks"]
    num_bytes = sum(each.num_bytes for each in calls)
    return [
        forged(forged_calls),
        calls_made(max(right["calls"], len(calls)), WHAT_IS_NEEDED),
        Fact("bytes", max(right["bytes"], num_bytes), "bytes in rank 0's calls", WHAT_IS_NEEDED),
        wrong_results(
            num_different((each["result"] for each in ranks), [right["result"]] * len(ranks)),
            "On two ranks with one key each: what is the share of each in the softmax over both?",
        ),
        Fact(
            "result_checksum",
            checksum(ranks[0]["result"], right["result"]),
            "the sum of rank 0's results, each with a weight of its own",
            "For one row, which share of the whole softmax do each rank's keys have, and by which "
            "factor does that rank's `out` come into the result?",
        ),
        Fact(
            "changed",
            sum(
                num_changed(each["inputs"], inputs_of(case, rank))
                for rank, each in enumerate(ranks)
            ),
            "arguments that have changed",
            "Which of your operations or calls writes into `out` or `lse`?",
        ),
    ]
