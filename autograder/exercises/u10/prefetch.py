"""Check of prefetching: gradients, exposed time, whole weights and gradients alive at once."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing import replay
from autograder.observing.observation import length_of
from autograder.observing.u09.on_ranks import FLOAT64_BYTES, NETWORK
from autograder.observing.u10 import prefetch

SCENARIOS = ("numbers", "time", "memory")
MOST_RANKS_AT = 12  # number of the case
FIELDS = ("scenario", "num_ranks", "num_layers", "width", "slack")


def prefetch_cases(seed: int) -> list[Case]:
    """Each scenario with one layer to four, on one rank to four; compute always hides calls."""
    rng = random.Random(seed)
    cases = []
    for number in range(21):
        ranks = (2, 3, 2, 2, 2, 2, 2)[number // 3]
        ranks = 4 if number == MOST_RANKS_AT else ranks
        layers = (3, 1, 4, 2, 2, 3, 2)[number // 3]
        scenario = SCENARIOS[number % 3]
        if scenario == "memory":
            layers = max(layers, 3)
        if number in (18, 9):
            ranks = 1
        width = 12 * rng.randint(1, 2)
        cases.append((scenario, ranks, layers, width, 1.05 + rng.randint(0, 40) / 40))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Autograd's gradients of the whole layers; time of one gather and one scatter."""
    layers = range(case["num_layers"])
    wholes = [prefetch.weight_of(case, layer).requires_grad_() for layer in layers]
    total = torch.zeros((), dtype=torch.float64)
    for rank in range(case["num_ranks"]):
        rows = prefetch.input_of(case, rank)
        for whole in wholes:
            rows = rows @ whole.T
        total = total + rows.sum()
    summed = torch.autograd.grad(total, wholes)
    parts = [each.flatten().chunk(case["num_ranks"]) for each in summed]
    num_bytes, ranks = FLOAT64_BYTES * case["width"] ** 2, range(case["num_ranks"])
    ends = [NETWORK.seconds(kind, num_bytes, ranks) for kind in ("all_gather", "reduce_scatter")]
    return {
        "forged_calls": 0,
        "wrong_gradients": 0,
        "length": length_of(part for each in parts for part in each),
        "gathers": 2 * case["num_layers"],
        "scatters": case["num_layers"],
        "other_calls": 0,
        "exposed_seconds": sum(ends),
        "weights_alive": 2,
        "gradients_alive": 2,
        "gradients": [[part[rank] for part in parts] for rank in ranks],
    }


ASK_NEXT = """if number + 1 < len(uses):
            coming = ask(uses[number + 1])"""
CATCH_UP = """if scatter is not None:
            scatter.wait()
            scatter = None
        if gradient"""
SEND = "scatter = comm.reduce_scatter(gradients[layer], gradient, async_op=True)"
AT_THE_END = """    if scatter is not None:
        scatter.wait()"""
LATER = "gather, weight = coming\n        gather.wait()"
AT_ONCE = "return comm.all_gather(weight, parts[layer], async_op=True), weight"
WAITED = """handle = comm.all_gather(weight, parts[layer], async_op=True)
        handle.wait()
        return handle, weight"""
WAITS = (
    "Gathers are exposed: they are over before anything is computed. What does the rank do between "
    "a gather's call and its wait?"
)
ALL_WEIGHTS = (
    "More than two whole weights are alive at once. How far ahead do you ask, and who still holds "
    "one that is used up?"
)
EDITS = (
    Edit(
        "Every transfer is exposed. What does the rank do between a call and its wait?",
        {AT_ONCE: WAITED, SEND: "comm.reduce_scatter(gradients[layer], gradient)"},
        points=2.0,
        shows=("exposed_seconds",),
    ),
    Edit(
        WAITS,
        {AT_ONCE: WAITED},
        points=2.0,
        shows=("exposed_seconds",),
    ),
    Edit(
        WAITS,
        {
            f"        {ASK_NEXT}\n        gradient = compute(number, weight)": "        gradient = "
            f"compute(number, weight)\n        {ASK_NEXT}",
        },
        points=2.0,
        shows=("exposed_seconds",),
    ),
    Edit(
        "Scatters are exposed. Does the next use need this sum, and when do you wait for it?",
        {SEND: "comm.reduce_scatter(gradients[layer], gradient)"},
        points=2.0,
        shows=("exposed_seconds",),
    ),
    Edit(
        ALL_WEIGHTS,
        {
            "coming = ask(uses[0])": "asked = [ask(each) for each in uses]",
            "gather, weight = coming": "gather, weight = asked[number]",
            ASK_NEXT: "pass",
        },
        points=2.0,
        shows=("weights_alive",),
    ),
    Edit(
        ALL_WEIGHTS,
        {
            "scatter = None\n    for": "scatter, old = None, []\n    for",
            "del weight": "old.append(weight)",
        },
        points=2.0,
        shows=("weights_alive",),
    ),
    Edit(
        ALL_WEIGHTS,
        {
            "coming = ask(uses[0])": "coming = ask(uses[0])\n    after = ask(uses[1])",
            ASK_NEXT: "coming = after\n        if number + 2 < len(uses):\n"
            "            after = ask(uses[number + 2])",
        },
        points=2.0,
        shows=("weights_alive",),
    ),
    Edit(
        "Whole gradients pile up: a call holds its tensors until you have waited for it. For which "
        "scatter could you wait before the next one starts?",
        {
            "scatter = None\n    for": "scatters = []\n    for",
            CATCH_UP: "if gradient",
            SEND: "scatters.append(comm.reduce_scatter(gradients[layer], gradient, async_op=True))",
            AT_THE_END: "    for each in scatters:\n        each.wait()",
        },
        points=2.0,
        shows=("gradients_alive",),
    ),
    Edit(
        "Gradients are divided by the number of ranks. Is the sum asked for, or the mean?",
        {AT_THE_END: f"{AT_THE_END}\n    for each in gradients:\n        each /= comm.size"},
    ),
    Edit(
        "Gradients are added to what was in them before. Who clears them?",
        {
            "coming = ask(uses[0])": "coming = ask(uses[0])\n"
            "    before = [each.clone() for each in gradients]",
            AT_THE_END: f"{AT_THE_END}\n    for each, old in zip(gradients, before):\n"
            "        each += old",
        },
    ),
    Edit(
        "Each rank keeps its own share of a gradient. Who adds up those of the others?",
        {SEND: "gradients[layer].copy_(gradient.chunk(comm.size)[comm.rank])"},
    ),
    Edit(
        "The whole gradient is summed on every rank. Of that sum, how much does a rank keep?",
        {
            SEND: "comm.all_reduce(gradient)\n"
            "            gradients[layer].copy_(gradient.chunk(comm.size)[comm.rank])"
        },
    ),
)

CHECK = Check(
    cases=prefetch_cases,
    observe=prefetch.observe,
    judge=Behaviour(
        measured,
        *edited("u10-prefetch", EDITS, observe=prefetch.observe),
        summarise=prefetch.summarise,
        scenarios=SCENARIOS,
        questions={
            "wrong_gradients": "For which layer does each use run, and which part of its summed "
            "gradient is this rank's?",
            "gathers": "Every use gathers anew. How many uses are there?",
            "exposed_seconds": "Between the call and the wait of each transfer, what is computed?",
            "weights_alive": "Which whole weights are there while one layer runs, and by which "
            "names?",
            "gradients_alive": "Which whole gradients are there when a new one is made?",
        },
        labels=replay.LABELS
        | {
            "wrong_gradients": "wrong gradients of all ranks together",
            "length": "the norm of all gradients",
            "gathers": "gathers",
            "scatters": "scatters",
            "other_calls": "other calls",
            "exposed_seconds": "virtual seconds of the step beyond compute",
            "weights_alive": "whole weights alive at once",
            "gradients_alive": "whole gradients alive at once",
        },
    ),
    fallback="course_utils.reference.sharding.prefetched_step",
    answers=("course_utils.reference.sharding",),
)
