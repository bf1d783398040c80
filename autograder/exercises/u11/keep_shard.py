"""Check of a product with gathered tokens of which only the shard is kept."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u11 import keep_shard
from autograder.observing.u11.keep_shard import (
    KEPT,
    NUMBERS,
    OVERLAPPED,
    SCENARIOS,
    cluster_for,
    on_rank,
    tensors_of,
)
from course_utils.reference.tensor_parallel import gathered_product

FIELDS = ("scenario", "kind", "num_ranks", "tokens_per_rank", "hidden_size", "rows")
PLAIN, TURNED = "plain", "transposed gradient"


def keep_shard_cases(seed: int) -> list[Case]:
    """Each scenario on one rank to four; a gradient that is transposed; weights of every shape."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = [(NUMBERS, PLAIN, 2, 1, 2, 3)]
    for scenario in SCENARIOS:
        for num_ranks in (2, 4, 3, 2, 4, 3, 2 if scenario == OVERLAPPED else 1):
            kind = rng.choice((PLAIN, TURNED)) if len(cases) % 2 else TURNED
            least = 12 if scenario == OVERLAPPED else 2
            sizes = (rng.randint(least, least + 3) for _ in range(3))
            cases.append((scenario, kind, num_ranks, *sizes))
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """The products of all tokens; shard and weight kept; three calls; and the least time."""
    of_ranks = [tensors_of(case, rank) for rank in range(case["num_ranks"])]
    shards, weights, incoming = (list(each) for each in zip(*of_ranks, strict=True))
    whole = torch.cat(shards).detach()
    pairs = list(zip(weights, incoming, strict=True))
    of_whole = torch.stack([gradient @ weight.detach() for weight, gradient in pairs]).sum(0)
    tensors = {
        "result": [(whole @ weight.T).detach() for weight in weights],
        "shard": list(of_whole.chunk(case["num_ranks"])),
        "weight": [gradient.T @ whole for gradient in incoming],
    }
    wrong = {
        "early_weights": 0,
        "summed_weights": 0,
        "wrong_results": 0,
        "wrong_shards": 0,
        "wrong_weights": 0,
    }
    calls = {
        "forward_calls": 1,
        "backward_calls": 2,
        "other_calls": 0,
        "call_bytes": whole.nbytes,
    }
    right = {**tensors, "forged_calls": 0, "seconds": []}
    if case["scenario"] == NUMBERS:
        return {**right, **wrong}
    if case["scenario"] == KEPT:
        kept = shards[0].nbytes + weights[0].nbytes
        return {**right, "saved_bytes": kept, "copied_bytes": 0, "unseen_bytes": 0, **calls}
    run = cluster_for(case).run(on_rank, gathered_product, case)
    return {**right, **calls, **wrong, "late": 0, "seconds": [run.step_seconds]}


SAVE, LOAD = "ctx.save_for_backward(shard, weight)", "shard, weight = ctx.saved_tensors"
SECOND = "gather = ask_for_all(shard)\n            of_whole"
SCATTER = "scatter = comm.reduce_scatter(of_shard, of_whole, async_op=True)"
WAIT = "gather.wait()\n            of_weight"

LATE = (
    "All is right but the time. Backward has two products and two calls: which product needs what "
    "is gathered, and which call needs a product?"
)

EDITS = (
    Edit(
        "All numbers are right, and every rank keeps all tokens. What is the least from which "
        "backward can get them again?",
        {
            SAVE: "ctx.save_for_backward(tokens, weight)\n            ctx.length = len(shard)",
            LOAD: "whole, weight = ctx.saved_tensors\n            shard = whole[: ctx.length]",
            "whole, gather = ask_for_all(shard)\n            of_whole": "of_whole",
            WAIT: "of_weight",
        },
        points=1.0,
    ),
    Edit(
        "Backward returns no gradient. Which two products is it asked for, and in the order of "
        "which arguments?",
        {"return of_shard, of_weight": "return None, None"},
        points=1.0,
    ),
    Edit(
        "The product for the weight runs before all tokens are here. Which call brings them, and "
        "when are they yours?",
        {
            "            gather.wait()\n": "",
            "of_weight = gradient.T @ whole": "of_weight = gradient.T @ whole\n"
            "            gather.wait()",
        },
        points=1.0,
        shows=("early_weights",),
    ),
    Edit(
        "All numbers are right, and the shard lives on where autograd does not see it. What does "
        "ctx offer to keep a tensor?",
        {SAVE: "ctx.kept = shard, weight", LOAD: "shard, weight = ctx.kept"},
        points=2.0,
    ),
    Edit(
        LATE,
        {SECOND: "gather = ask_for_all(shard)\n            gather.wait()\n            of_whole"},
        points=2.0,
    ),
    Edit(LATE, {SCATTER: f"{SCATTER}\n            scatter.wait()"}, points=2.0),
    Edit(
        "The gradient of the shard is that of this rank's own product. The other ranks used these "
        "tokens, too: who adds up?",
        {
            "of_whole, of_shard = gradient @ weight, torch.empty_like(shard)": "mine = slice("
            "comm.rank * len(shard), (comm.rank + 1) * len(shard))\n"
            "            of_shard = (gradient @ weight)[mine]",
            SCATTER: "",
            "            scatter.wait()\n": "",
        },
    ),
    Edit(
        "The gradient of the shard is a mean. Each rank's product is a part of a sum: what is left "
        "to divide?",
        {"return of_shard, of_weight": "return of_shard / comm.size, of_weight"},
        points=1.0,
        shows=("wrong_shards",),
    ),
    Edit(
        "The gradient of the weight is wrong. Which tokens did the product in forward use: this "
        "rank's, or all?",
        {"gradient.T @ whole": "gradient.chunk(comm.size)[comm.rank].T @ shard"},
        points=1.0,
        shows=("wrong_weights",),
    ),
    Edit(
        "The gradient of the weight is summed over ranks. Each rank has rows of its own: whose "
        "gradient do the others know?",
        {
            "            scatter.wait()": "            scatter.wait()\n"
            "            comm.all_reduce(of_weight)"
        },
        shows=("summed_weights", "other_calls"),
    ),
)

CHECK = Check(
    cases=keep_shard_cases,
    observe=keep_shard.observe,
    judge=Behaviour(
        measured,
        *edited("u11-keep-shard", EDITS, keep_shard.observe),
        scenarios=SCENARIOS,
        labels=keep_shard.LABELS,
        summarise=keep_shard.summarise,
        questions={
            "kept": "Numbers are right, and a rank keeps something else than its shard and its "
            "weight. Which tensor reaches backward, and how?",
            "overlapped": "Which of your calls does the next line need, and which could be waited "
            "for later?",
            "forward_calls": "Which tokens does the product need, and which does a rank have?",
            "backward_calls": "Two things are missing in backward: all tokens once more, and the "
            "sum of what all ranks say of each. Which call brings which?",
            "wrong_results": "In which order do the tokens of the ranks stand in the result?",
            "wrong_shards": "Which ranks' products use the tokens of this shard?",
            "wrong_weights": "Which tokens went through this rank's weight, and had they arrived?",
        },
    ),
    fallback="course_utils.reference.tensor_parallel.gathered_product",
    answers=("course_utils.reference.tensor_parallel.gathered_product",),
)
