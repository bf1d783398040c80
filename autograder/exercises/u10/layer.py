"""Check of a sharded layer: gradients, calls, what it keeps, and whole weights alive at once."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, any_of, edited
from autograder.observing import replay
from autograder.observing.observation import length_of, upstream
from autograder.observing.u10 import layer

SCENARIOS = ("one rank", "some ranks", "memory")
MOST_RANKS_AT = 3  # number of the case


def layer_cases(seed: int) -> list[Case]:
    """One rank, some ranks, layers wide and tall; square ones for memory, with few rows."""
    rng = random.Random(seed)
    cases = []
    for number in range(21):
        scenario = SCENARIOS[(number + 1) % 3]
        ranks = 1 if scenario == "one rank" else (2, 2, 3)[number % 7 % 3]
        ranks = 4 if number == MOST_RANKS_AT else ranks
        width = ranks * rng.randint(1, 3)
        shape = [width, rng.randint(2, 7)] if number % 2 else [rng.randint(2, 7), width]
        if scenario == "memory":
            shape = [12 * rng.randint(1, 2)] * 2
        case = {"scenario": scenario, "num_ranks": ranks, "shape": shape, "rows": rng.randint(2, 6)}
        cases.append(case)
    return cases


def measured(**case: Any) -> dict[str, Any]:
    """Autograd's own product with the whole weight; the part of the sum of all ranks."""
    whole, inputs = layer.weight_of(case).requires_grad_(), []
    results = []
    for rank in range(case["num_ranks"]):
        inputs.append(layer.input_of(case, rank))
        y = (2 * inputs[-1]) @ whole.T
        y.backward(upstream(y))
        results.append(y.detach())
    assert whole.grad is not None
    parts = whole.grad.flatten().chunk(case["num_ranks"])
    last = layer.input_of(case, case["num_ranks"] - 1)
    return {
        "forged_calls": 0,
        "missing_dx": 0,
        "missing_dpart": 0,
        "wrong_y": 0,
        "wrong_dx": 0,
        "wrong_dpart": 0,
        "length": length_of(parts),
        "length_y": length_of(results),
        "length_dx": length_of(each.grad for each in inputs),
        "gathers": 2,
        "scatters": 1,
        "calls": 3,
        "sent_bytes": 3 * (whole.nbytes - 8 * len(parts[0])),
        "saved_bytes": last.nbytes + parts[0].nbytes,
        "unseen_bytes": 0,
        "alive": 1,
        "ranks": [
            {"y": y, "dx": x.grad, "dpart": part}
            for y, x, part in zip(results, inputs, parts, strict=True)
        ],
    }


# Places of the model answer; some stand twice and are told apart by what follows.
SAVE, RETURN = "ctx.save_for_backward(x, part)", "return x @ weight.T"
AGAIN = """weight = x.new_empty(ctx.shape)
        ctx.comm.all_gather(weight, part)"""
UNPACK, DROP = "x, part = ctx.saved_tensors", "del weight"
DW, DPART = "dw = dy.T @ x", "dpart = torch.empty_like(part)"
SCATTER = "ctx.comm.reduce_scatter(dpart, dw)"
RESULT = "return None, dx, dpart, None"
MADE, MADE_AGAIN = "weight = x.new_empty(shape)", "weight = x.new_empty(ctx.shape)"
DX = "dx = dy @ weight"
EDITS = (
    Edit(
        "The gathered weight lives from forward to backward. What do you give to autograd to keep?",
        {
            SAVE: "ctx.save_for_backward(x, part, weight)",
            UNPACK: "x, part, weight = ctx.saved_tensors",
            AGAIN: "pass",
        },
    ),
    Edit(
        "The gathered weight lives on as an attribute of `ctx`, where no instrument of autograd "
        "sees it. Who forgets it, and when?",
        {
            SAVE: f"{SAVE}\n        ctx.w = weight",
            AGAIN: "weight = ctx.w",
        },
    ),
    Edit(
        "The weight is gathered twice and kept all the same. Which of your lines holds it after "
        "forward?",
        {SAVE: f"{SAVE}\n        ctx.w = weight"},
        points=2.0,
        shows=("unseen_bytes",),
    ),
    Edit(
        "The weight is gathered twice and kept all the same. Which of your lines holds it after "
        "forward?",
        {SAVE: "ctx.save_for_backward(x, part, weight)", UNPACK: "x, part, _ = ctx.saved_tensors"},
        points=2.0,
        shows=("saved_bytes",),
    ),
    Edit(
        "The numbers are right, and autograd does not know what you keep. What did you give to "
        "`save_for_backward`?",
        {SAVE: "ctx.x, ctx.part = x, part", UNPACK: "x, part = ctx.x, ctx.part"},
        points=2.0,
        shows=("saved_bytes",),
    ),
    Edit(
        "Two tensors as large as the weight are alive at once. In backward, is one of the two "
        "still there when the other is made?",
        {DROP: "pass"},
        points=2.0,
        shows=("alive",),
    ),
    Edit(
        "The gradient of a part is this rank's own share. Who adds up those of the others?",
        {SCATTER: "dpart.copy_(dw.flatten().chunk(ctx.comm.size)[ctx.comm.rank])"},
    ),
    Edit(
        "The gradient is divided by the number of ranks. Is the sum asked for, or the mean?",
        {SCATTER: f"{SCATTER}\n        dpart /= ctx.comm.size"},
        points=1.0,
    ),
    Edit(
        "The whole gradient is summed on every rank. Of that sum, how much does a rank keep?",
        {
            SCATTER: "ctx.comm.all_reduce(dw)\n"
            "        dpart.copy_(dw.flatten().chunk(ctx.comm.size)[ctx.comm.rank])"
        },
        shows=("scatters",),
    ),
    Edit(
        "The weight's gradient is that of another weight: rows and columns have changed places. "
        "Of which shape is the weight, out by in or in by out?",
        {DW: "dw = (x.T @ dy)"},
    ),
    *any_of(
        "The numbers of the weight stand in the right order and in the wrong shape. The flat "
        "weight is one row after another: of how many rows, `shape[0]` or `shape[1]`?",
        {MADE: "weight = x.new_empty(shape[::-1])", RETURN: "return x @ weight"},
        {
            MADE_AGAIN: "weight = x.new_empty(ctx.shape[::-1])",
            DX: "dx = dy @ weight.T",
        },
    ),
    *any_of(
        "The right numbers stand in the wrong places. `reshape` reads row by row, as it writes: "
        "what makes columns of rows?",
        {RETURN: "return (weight @ x.T).reshape(len(x), -1)"},
        {DX: "dx = (weight.T @ dy.T).reshape(x.shape)"},
    ),
    Edit(
        "Backward uses a weight that nobody has filled. What is in new memory?",
        {AGAIN: "weight = x.new_zeros(ctx.shape)"},
    ),
    Edit(
        "The part gets no gradient. Which place of what `backward` returns belongs to it?",
        {RESULT: "return None, dx, None, None"},
    ),
    Edit(
        "The input gets no gradient. Which place of what `backward` returns belongs to it?",
        {RESULT: "return None, None, dpart, None"},
    ),
    Edit(
        "The part gets no gradient: for autograd, the gathered weight comes from nowhere. Who "
        "tells it that the weight was made of parts, and what to do on the way back?",
        {
            "(torch.autograd.Function):": ":",
            "forward(ctx: Any, comm": "apply(comm",
            "ctx.comm, ctx.shape = comm, shape": "",
            f"comm.all_gather(weight, part)\n        {SAVE}": "with torch.no_grad():\n"
            "            comm.all_gather(weight, part)",
        },
    ),
)

CHECK = Check(
    cases=layer_cases,
    observe=layer.observe,
    judge=Behaviour(
        measured,
        *edited("u10-layer", EDITS, observe=layer.observe),
        summarise=layer.summarise,
        scenarios=SCENARIOS,
        questions={
            "wrong_y": "What is the product of an input and a whole weight, and where does each "
            "part of the weight belong?",
            "wrong_dx": "Which product is the gradient of the input?",
            "wrong_dpart": "Which product is the gradient of the weight, and which part of whose "
            "sum does this rank keep?",
            "gathers": "One gather for forward, one for backward. Which calls do you make?",
            "calls": "One gather for forward, one for backward, one scatter. Which calls do you "
            "make?",
            "saved_bytes": "Which tensors do you give to `save_for_backward`, and which of "
            "them does backward need?",
            "alive": "When is each whole weight made, and which name holds it how long?",
        },
        labels=replay.LABELS
        | {
            "missing_dx": "ranks without a gradient of the input",
            "missing_dpart": "ranks without a gradient of their part",
            "wrong_y": "ranks with a wrong result",
            "wrong_dx": "ranks with a wrong gradient of the input",
            "wrong_dpart": "ranks with a wrong gradient of their part",
            "length": "the norm of the gradient of all parts",
            "length_y": "the norm of all results",
            "length_dx": "the norm of the gradient of all inputs",
            "gathers": "gathers of rank 0",
            "scatters": "scatters of rank 0",
            "calls": "calls of a rank",
            "sent_bytes": "bytes that rank 0 sends",
            "saved_bytes": "bytes that autograd keeps",
            "unseen_bytes": "bytes that stay alive where autograd does not see them",
            "alive": "tensors as large as the weight that are alive at once",
        },
    ),
    fallback="course_utils.reference.sharding.ShardedLinear",
    answers=("course_utils.reference.sharding",),
)
