"""Check of buckets fixed beforehand, where some ranks have no gradient for a parameter."""

import random
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u09.shared.backward_steps import (
    BUCKETERS,
    CHANGES_MODEL,
    ELEMENT_BYTES,
    LABELS,
    NO_BACKWARD,
    STAY_AFTER_ERROR,
    grouped,
)
from autograder.observing.observation import length_of
from autograder.observing.u09 import unused
from autograder.observing.u09.backward_steps import NUM_ROWS, state_of

FIELDS = ("widths", "bucket_bytes", "unused", "kind")
KINDS = (
    *("one rank", "two ranks", "all ranks", "exact"),
    *("shared", "reordered", "swapped", "float32"),
)


def unused_cases(seed: int) -> list[Case]:
    """Parameters unused on one rank, on two, on all; none unused; shared; out of order.

    Where all ranks leave a parameter unused, one leaves another one unused too. Where parameters
    are reordered, the second bucket is complete before the first on the rank that uses both. Where
    they are swapped, a member of the first bucket is as large as it must be, and complete first.
    """
    rng = random.Random(seed)
    cases = [_case([2, 3, 4, 2], 96, [[], [1]], "one rank")]
    cases += [_case_of_kind(rng, kind, number) for number in range(3) for kind in KINDS]
    return cases


def _case_of_kind(rng: random.Random, kind: str, number: int) -> Case:
    widths = [rng.randint(1, 2)]
    while len(widths) < 5:
        widths.append(widths[-1] + rng.randint(1, 2))
    element_bytes = ELEMENT_BYTES["float32" if kind == "float32" else "float64"]
    sizes = [element_bytes * a * b for a, b in pairwise(widths)]
    threshold = sizes[-1] + element_bytes  # so that no bucket has one parameter alone
    index = rng.randint(0, 2)
    if kind in ("one rank", "float32"):
        return _case(widths, threshold, [[], [index]] if number % 2 else [[index], []], kind)
    if kind == "two ranks":
        return _case(widths, threshold, [[2], [1], []], kind)
    if kind == "all ranks":
        return _case(widths, threshold, [[1], [1, 2]] if number % 2 else [[0, 2], [0]], kind)
    if kind == "exact":  # the last two matrices together, or all
        return _case(widths, sum(sizes if number % 2 else sizes[-2:]), [[], []], kind)
    if kind == "shared":
        unused = [[1], []] if number % 2 else [[], []]
        return _case([widths[2], 4, 4, 4, 3], rng.choice((88, 104)), unused, kind)
    if kind == "swapped":
        return _case(widths, sizes[-1], [[0], []] if number % 2 else [[], [0]], kind)
    k = rng.randint(3, 5)
    widths = [rng.randint(1, 2), k, k + 1, k, k + 1, k + 2]
    threshold = element_bytes * (widths[-2] * widths[-1] + 1)
    return _case(widths, threshold, [[2], []] if number % 2 else [[], [2]], kind)


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def measured(**case: Any) -> dict[str, Any]:
    """The sums of all ranks, in fixed buckets that leave as soon as they can."""
    ranks = range(len(case["unused"]))
    moments = [_moments(case, rank) for rank in ranks]
    parameters = list(unused.model_of(case).parameters())[::-1]
    every = [_gradients(case, rank) for rank in ranks]
    gradients = [torch.stack(parts).sum(0) for parts in zip(*every, strict=True)]
    sizes = [each.nbytes for each in parameters]
    buckets = [_sent(grouped(sizes, case["bucket_bytes"]), each[::-1]) for each, _ in moments]
    return {
        "forged_calls": 0,
        "backward_passes": 1,
        "collectives": len(buckets[0]),
        "other_buckets": 0,
        "missing_gradients": 0,
        "gradient_length": length_of(gradients),
        "wrong_gradients": 0,
        "waits": 0,
        "other_moments": 0,
        "compute_seconds": sum(end for _, end in moments),
        "changes_model": 0,
        "hooks_left": 0,
        "hooks_after_error": 0,
        "gradients": gradients,
        "state": state_of(unused.model_of(case)),
        "buckets": buckets,
    }


def _moments(case: Case, rank: int) -> tuple[list[float], float]:
    """When each parameter's gradient is complete on a rank, and when backward is over.

    A matrix has one product for its weight if that is used, and one for its input if a matrix
    before it is used. A parameter that is unused is known to be so when backward is over.
    """
    model = unused.model_of(case)
    is_used = [n not in case["unused"][rank] for n in model.order]
    weights = [model.weights[n] for n in model.order]
    clock = 2.0 * NUM_ROWS * sum(each.numel() for each in weights)
    complete: dict[Tensor, float] = {}
    for number, weight in reversed(list(enumerate(weights))):
        num_products = is_used[number] + any(is_used[:number])
        clock += num_products * 2 * NUM_ROWS * weight.numel()
        if is_used[number]:
            complete[weight] = clock
    return [complete.get(each, clock) for each in model.parameters()], clock


def _sent(buckets: list[list[int]], moments: list[float]) -> list[list[float]]:
    """Bytes of each bucket, and when it leaves: it and those before it are complete."""
    sent, following, clock = [], iter(moments), 0.0
    for bucket in buckets:
        clock = max(clock, *(next(following) for _ in bucket))
        sent.append([sum(bucket), clock])
    return sent


def _gradients(case: Case, rank: int) -> list[Tensor]:
    """Gradients of one rank alone; zeros for what it does not use."""
    model = unused.model_of(case)
    parameters = list(model.parameters())
    loss = unused.loss_of(case, model, rank)
    return list(torch.autograd.grad(loss, parameters, materialize_grads=True, allow_unused=True))


# Places of the model answer.
LIST, ROOM = "reversed(list(model.parameters()))", "room = bucket_bytes"
ZEROS = (
    "        for member in members:\n            if member.grad is None:\n"
    "                member.grad = torch.zeros_like(member)\n        flat = joined(members)\n"
)
SENT = "under_way.append((comm.all_reduce(flat, async_op=True), flat))"
WHILE = "while len(under_way) < len(buckets) and complete"
WHILE_COMPLETE = f"        {WHILE}.issuperset(buckets[len(under_way)]):\n            start_next()\n"
BACKWARD, GIVE_BACK = (
    "with hooks_on(model, on_gradient):\n        loss.backward()",
    "give_back(flat, members)",
)
EACH_PIECE = (
    "pieces = flat.split([each.numel() for each in members])\n"
    "        for member, piece in zip(members, pieces, strict=True):\n            "
)

COMPLETE = "complete.issuperset(buckets[len(under_way)])"

OTHERS, LENGTH = ("collectives", "other_buckets"), ("gradient_length",)
MISSING, MOMENTS = ("missing_gradients",), ("other_moments",)
ALONE = "Each parameter travels by itself. Where does a bucket end?"
EDITS = (
    Edit(
        "Nothing goes over the links. Which call lets the ranks add up what each of them has?",
        {BACKWARD: "loss.backward()\n    return"},
        shows=OTHERS[:1],
    ),
    Edit(ALONE, {ROOM: "room = 0"}, shows=OTHERS[:1]),
    Edit(ALONE, {ROOM: "room = 0", WHILE_COMPLETE: ""}),
    Edit(
        "A bucket that is exactly full waits for one parameter more. What does the exercise "
        "say of a bucket that has just as many bytes?",
        {"room = 0\n": "room = -1\n", "room <= 0": "room < 0"},
        shows=OTHERS,
    ),
    Edit(
        "A parameter that two modules share travels twice. Which list of a model's parameters "
        "names each one once?",
        {LIST: "[p for m in model.modules() for p in m.parameters(recurse=False)][::-1]"},
        shows=OTHERS,
    ),
    Edit(
        "No rank has used the parameter, and afterwards it has no gradient. What does the "
        "exercise say every rank has then, and what is a sum of zeros?",
        {
            GIVE_BACK: f"{GIVE_BACK}\n        for member in members:\n"
            "            if not member.grad.any():\n                member.grad = None"
        },
        shows=MISSING,
    ),
    Edit(
        "A rank that did not use a parameter has no gradient for it afterwards, though others "
        "have sent theirs. Into what do you write the sum there?",
        {
            ZEROS: "        made = [torch.zeros_like(p) if p.grad is None else p.grad"
            " for p in members]\n        flat = torch.cat([each.flatten() for each in made])\n",
            GIVE_BACK: f"{EACH_PIECE}if member.grad is not None:\n"
            "                member.grad = piece.view_as(member)",
        },
        shows=MISSING,
    ),
    Edit(
        "The sums are added to what each rank has of its own already. Which operation puts "
        "new numbers in the place of old ones?",
        {GIVE_BACK: f"{EACH_PIECE}member.grad += piece.view_as(member)"},
        shows=LENGTH,
    ),
    Edit(
        "Gradients are too small by a factor, the number of ranks. What is a rank's loss a "
        "share of?",
        {GIVE_BACK: f"flat /= comm.size\n        {GIVE_BACK}"},
        shows=LENGTH,
    ),
    Edit(
        "Buckets begin with the first parameter. Which gradient is complete first, and with "
        "which parameter does the exercise begin?",
        {LIST: "model.parameters()"},
        shows=OTHERS,
    ),
    Edit(
        "Backward stands still until a bucket has arrived. Which form of the call comes back "
        "at once?",
        {SENT: f"{SENT}\n        under_way[-1][0].wait()"},
        shows=("waits",),
    ),
    Edit(
        "All buckets are sent only when backward is over. Which of them could have left "
        "before, without a gradient missing?",
        {WHILE_COMPLETE: ""},
        shows=MOMENTS,
    ),
    Edit(
        "A bucket that was complete before its turn leaves one gradient late. When the one "
        "before it is sent, how many may follow at once?",
        {WHILE: WHILE.replace("while", "if")},
        shows=MOMENTS,
    ),
    Edit(
        "Your hooks are still there when the function returns: what will the next backward "
        "pass set off?",
        {
            BACKWARD: "for each in model.parameters():\n"
            "        each.register_post_accumulate_grad_hook(on_gradient)\n    loss.backward()"
        },
        shows=("hooks_left",),
    ),
    Edit(
        STAY_AFTER_ERROR,
        {
            BACKWARD: "hooks = [p.register_post_accumulate_grad_hook(on_gradient) for p in "
            "model.parameters()]\n    loss.backward()\n    for each in hooks:\n"
            "        each.remove()"
        },
    ),
    *(
        Edit(
            "A bucket leaves with its first gradient, and zeros stand for those that are still to "
            "come. When is it known that a rank has no gradient for a parameter?",
            pieces,
            shows=(*LENGTH, *MOMENTS),
        )
        for pieces in (
            {COMPLETE: "not complete.isdisjoint(buckets[len(under_way)])"},
            {
                "complete.add(parameter)": "if len(under_way) < len(buckets):\n"
                "            complete.update(buckets[len(under_way)])"
            },
        )
    ),
    Edit(
        "A bucket leaves as soon as it has the bytes, and what comes later is lost. Which members "
        "of a bucket may still be missing then?",
        {
            COMPLETE: "sum(\n"
            "            each.nbytes for each in complete.intersection(buckets[len(under_way)])\n"
            "        ) >= bucket_bytes"
        },
        shows=(*LENGTH, *MOMENTS),
    ),
    *(
        Edit(
            "A bucket leaves though a member is missing, or waits though all are there. Of which "
            "members do you ask whether they are complete?",
            {COMPLETE: asked},
            shows=(*LENGTH, *MOMENTS),
        )
        for asked in (
            "buckets[len(under_way)][0] in complete",
            "buckets[len(under_way)][-1] in complete",
            "len(complete) >= sum(map(len, buckets[: len(under_way) + 1]))",
        )
    ),
    Edit(
        "Some models have numbers of four bytes. Who knows how many bytes a parameter has?",
        {"parameter.nbytes": "8 * parameter.numel()"},
        shows=OTHERS,
    ),
    Edit(
        CHANGES_MODEL,
        {GIVE_BACK: f"{GIVE_BACK}\n    model.eval()"},
        shows=("changes_model",),
    ),
)

CHECK = Check(
    cases=unused_cases,
    observe=unused.observe,
    judge=Behaviour(
        measured,
        Symptom(NO_BACKWARD, lambda *values: {"backward_passes": 0}),
        *edited("u09-unused", EDITS, observe=unused.observe),
        questions={
            "other_buckets": "The ranks' buckets must be equal, whatever a rank uses. From what "
            "do all of them know which parameters share a bucket?",
            "missing_gradients": "A gradient is None afterwards. Who puts zeros in the place of "
            "one that a rank lacks?",
            "other_moments": "A bucket leaves later than it could. Which of its gradients does a "
            "rank still wait for?",
            "wrong_gradients": "Gradients are not the sum over all ranks. When do the sums come "
            "back, and into which tensors?",
        },
        labels=LABELS | {"other_moments": "buckets that leave later than they could"},
        summarise=unused.summarise,
    ),
    answers=BUCKETERS,
)
