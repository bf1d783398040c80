"""Check of a sharded optimizer step: equal to one optimizer for all, in the time of one call."""

import random
from typing import Any

import torch
from torch import nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing import replay
from autograder.observing.observation import length_of
from autograder.observing.u09.on_ranks import cluster_of
from autograder.observing.u10 import owners
from autograder.observing.u10.owners import NUM_STEPS

FIELDS = ("scenario", "num_ranks", "part_length", "rank_without_grad")

SCENARIOS = ("sgd", "adam")


def owners_cases(seed: int) -> list[Case]:
    """Both optimizers on one rank to four; parts of one number and of several, one without grad."""
    rng = random.Random(seed)
    cases: list[tuple[Any, ...]] = []
    for scenario in SCENARIOS:
        for number, usual in enumerate((2, 1, 3, 4, 2, 2, 3, 1, 2, 2)):
            is_single = number % 5 == 4
            num_ranks = rng.randint(2, 8) if is_single else usual
            length = 1 if is_single else rng.randint(2, 12)
            without_grad = rng.randrange(num_ranks) if len(cases) % 3 == 2 else None
            cases.append((scenario, num_ranks, length, without_grad))
    return [dict(zip(FIELDS, case, strict=True)) for case in cases]


def measured(**case: Any) -> dict[str, Any]:
    """One optimizer for all weights in one process; the time of an all-reduce of them."""
    weights = nn.Parameter(owners.weights_of(case))
    optimizer, after = owners.optimizer_of(case, weights), []
    for step in range(NUM_STEPS):
        now = weights.detach()
        shares = [owners.gradient_of(now, rank, step) for rank in range(case["num_ranks"])]
        weights.grad = torch.stack(shares).sum(0)
        optimizer.step()
        after.append(weights.detach().clone())
    alone = cluster_of(case["num_ranks"]).run(lambda comm: comm.all_reduce(after[0].clone()))
    return {
        "forged_calls": 0,
        "updates": NUM_STEPS,
        "wrong_steps": 0,
        "wrong_ranks": 0,
        "wrong_parts": 0,
        "length": length_of(after[-1:]),
        "calls": 2 * NUM_STEPS,
        "sent_bytes": 2 * NUM_STEPS * (after[0].nbytes - 8 * case["part_length"]),
        "seconds": NUM_STEPS * alone.step_seconds,
        "after": after,
        "parts": list(after[-1].chunk(case["num_ranks"])),
    }


NEW = "part.grad = torch.empty_like(part)"
SCATTER = "comm.reduce_scatter(part.grad, gradient)"
STEP, TELL = "optimizer.step()", "comm.all_gather(weights, part.detach())"
MINE = "gradient.chunk(comm.size)[comm.rank].clone()"
TOO_MUCH = (
    "Right, and half as much again goes over the links. Of the summed gradient, how much does this "
    "rank use?"
)
EDITS = (
    Edit(
        TOO_MUCH,
        {NEW: "comm.all_reduce(gradient)", SCATTER: f"part.grad = {MINE}"},
        shows=("sent_bytes", "seconds"),
    ),
    Edit(
        "Right, and far too much goes over the links: every rank gets whole gradients of all. "
        "Which call brings a rank the sum of its part alone?",
        {
            NEW: "every = gradient.new_empty(comm.size * len(gradient))",
            SCATTER: "comm.all_gather(every, gradient)\n"
            "    summed = every.view(comm.size, -1).sum(0)\n"
            "    part.grad = summed.chunk(comm.size)[comm.rank].clone()",
        },
        shows=("sent_bytes", "seconds"),
    ),
    Edit(
        "The gradient is divided by the number of ranks. Shares add up: why divide?",
        {SCATTER: f"{SCATTER}\n    part.grad /= comm.size"},
    ),
    Edit(
        "The gradient is too large by the number of ranks. Shares add up: why multiply?",
        {SCATTER: f"{SCATTER}\n    part.grad *= comm.size"},
    ),
    Edit(
        "Each rank updates with its own share of the gradient. Who has the other shares?",
        {NEW: f"part.grad = {MINE}", SCATTER: "pass"},
    ),
    *(
        Edit(
            "Your gradient is the sum and something more. What was in `part.grad` before?",
            {
                NEW: "new = torch.empty_like(part)",
                SCATTER: f"comm.reduce_scatter(new, gradient)\n    part.grad {added}",
            },
        )
        for added in ("+= new", "= new if part.grad is None else part.grad + new")
    ),
    Edit(
        "The summed gradient is written over this rank's part of the weights. What does the "
        "optimizer start from then?",
        {
            NEW: "part.grad = part.detach()",
            SCATTER: "comm.reduce_scatter(part.detach(), gradient)",
        },
    ),
    Edit(
        "The other ranks keep old weights. Who tells them the new ones?",
        {TELL: "weights.chunk(comm.size)[comm.rank].copy_(part.detach())"},
    ),
    Edit(
        "Weights never change, though parts do. How does a new part get into `weights`?",
        {TELL: "pass"},
    ),
    Edit(
        "You gather new weights, and the caller's never change. Is it the caller's tensor that "
        "you fill?",
        {TELL: f"weights = torch.empty_like(weights)\n    {TELL}"},
    ),
    Edit(
        "Weights are one step late. What do you gather, and has the optimizer run by then?",
        {f"{STEP}\n    {TELL}": f"{TELL}\n    {STEP}"},
    ),
    Edit(
        "Nothing is updated. Who turns a gradient into new weights?",
        {STEP: "pass"},
    ),
    Edit(
        "The optimizer runs twice in a step. What do its moments see then?",
        {STEP: f"{STEP}\n    {STEP}"},
    ),
    Edit(
        "Gradients are gathered where weights should be. What do the others need from this rank?",
        {TELL: "comm.all_gather(weights, part.grad)"},
    ),
    Edit(
        "Right, with a call for each owner. Which single call tells everybody everything?",
        {
            TELL: "weights.chunk(comm.size)[comm.rank].copy_(part.detach())\n"
            "    for owner, piece in enumerate(weights.chunk(comm.size)):\n"
            "        comm.broadcast(piece, owner)"
        },
        shows=("calls",),
        points=0.0,
    ),
)

CHECK = Check(
    cases=owners_cases,
    observe=owners.observe,
    judge=Behaviour(
        measured,
        *edited("u10-owners", EDITS, observe=owners.observe),
        summarise=owners.summarise,
        scenarios=SCENARIOS,
        questions={
            "wrong_steps": "Who sums the gradient, who updates from which gradient, and who tells "
            "the others?",
            "calls": "Two calls make one all-reduce. Which two?",
            "sent_bytes": "Two calls make one all-reduce. Which two?",
        },
        labels=replay.LABELS
        | {
            "updates": "updates of the optimizer in two steps",
            "wrong_steps": "steps that leave rank 0 with wrong weights",
            "wrong_ranks": "ranks with wrong weights",
            "wrong_parts": "ranks whose part is wrong",
            "length": "the norm of the weights in the end",
            "calls": "calls in two steps",
            "sent_bytes": "bytes that rank 0 sends",
            "seconds": "virtual seconds of two steps",
        },
    ),
    fallback="course_utils.reference.sharding.sharded_step",
    answers=("course_utils.reference.sharding",),
)
