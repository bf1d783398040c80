"""Check of gradients that are views of their buckets: bytes, and which memory backward fills."""

import itertools
import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u09.shared.backward_steps import (
    BUCKETERS,
    CHANGES_MODEL,
    ELEMENT_BYTES,
    LABELS,
    grouped,
    local_gradients,
)
from autograder.observing.observation import length_of
from autograder.observing.u09 import memory
from autograder.observing.u09.backward_steps import state_of

FIELDS = ("widths", "bucket_bytes", "precision")


def memory_cases(seed: int) -> list[Case]:
    """The last bucket full or not; exactly full buckets; one for all, one for each parameter.

    All in double and in single precision. Layers grow, so that no two have the same size.
    """
    rng = random.Random(seed)
    cases = [_case([2, 3, 4, 2], 96, "float64")]
    kinds = ("rest", "exact", "all", "single", "several")
    for kind, precision in 2 * list(itertools.product(kinds, ELEMENT_BYTES)):
        widths = [rng.randint(1, 3)]
        while len(widths) < 6:
            widths.append(widths[-1] + rng.randint(1, 2))
        sizes, one = _sizes(widths, precision), ELEMENT_BYTES[precision]
        threshold = {
            "rest": sizes[0] + one,
            "exact": sum(sizes[:2]),
            "all": sum(sizes) + one,
            "single": one,
            "several": sum(sizes[:3]) - one,
        }[kind]
        cases.append(_case(widths, threshold, precision))
    return cases


def _case(*values: Any) -> Case:
    return dict(zip(FIELDS, values, strict=True))


def _sizes(widths: list[int], precision: str) -> list[int]:
    """Bytes of the parameters, from the last to the first."""
    return [ELEMENT_BYTES[precision] * a * b for a, b in itertools.pairwise(widths)][::-1]


def measured(**case: Any) -> dict[str, Any]:
    """One set of gradients, in the buckets and nowhere else."""
    sizes = _sizes(case["widths"], case["precision"])
    bucket_bytes = [sum(each) for each in grouped(sizes, case["bucket_bytes"])]
    gradients = local_gradients(memory.job_of(case), 0)
    return {
        "buckets": len(bucket_bytes),
        "other_buckets": 0,
        "followed_buckets": 0,
        "gradients_apart": 0,
        "gradient_length": length_of(gradients),
        "wrong_gradients": 0,
        "peak_bytes": sum(sizes),
        "bytes_left": sum(sizes),
        "changes_model": 0,
        "state": state_of(memory.job_of(case).model()),
        "bucket_bytes": bucket_bytes,
        "gradients": gradients,
    }


# Places of the model answer.
START, FULL, VIEW = "num_bytes = bucket_bytes", "num_bytes >= bucket_bytes", "view.view_as(each)"
BEGIN = f"        if {FULL}:\n            groups.append([])\n            num_bytes = 0\n"
JOIN = "        groups[-1].append(parameter)\n        num_bytes += parameter.nbytes\n"
LIST = "reversed(list(model.parameters()))"
GROUPS = "groups: list[list[nn.Parameter]] = []"
ZEROS, MADE = "group[0].new_zeros(sum(lengths))", "made = []"
ZEROS_FIRST = (
    "for parameter in model.parameters():\n        parameter.grad = torch.zeros_like(parameter)\n"
)

ALONE = "Each parameter has a bucket of its own. Where does a bucket end?"
COPIED = (
    "Afterwards there is one set of gradients, but at its peak the call takes more. What is made "
    "only to be copied from?"
)
APART = (
    "The sizes are right, and backward fills other memory than your buckets. Which of your "
    "operations makes a copy where a view would do, and what is in grad?"
)
OTHERS, PEAK = ("buckets", "other_buckets"), ("peak_bytes",)
EDITS = (
    Edit(
        "An empty bucket comes last. When is the next one begun, if the last parameter has "
        "filled the one before?",
        {
            GROUPS: "groups = [[]]",
            START: "num_bytes = 0",
            BEGIN + JOIN: JOIN + BEGIN,
            "group[0].new_zeros(": "parameter.new_zeros(",
        },
        shows=OTHERS,
    ),
    Edit(
        "A bucket that is exactly full waits for one parameter more. What does the exercise "
        "say of a bucket that has just as many bytes?",
        {START: f"{START} + 1", FULL: FULL.replace(">=", ">")},
        shows=OTHERS,
    ),
    Edit(
        "Your buckets begin with the first parameter. With which one does the exercise begin, "
        "and whose gradient is complete first?",
        {LIST: "model.parameters()"},
        shows=OTHERS,
    ),
    Edit(
        "Your buckets are eight times too large. Does the exercise count numbers or bytes?",
        {"parameter.nbytes": "parameter.numel()"},
        shows=OTHERS,
    ),
    Edit(
        "A bucket ends before the parameter that would make it too large. Does the exercise set "
        "the most bytes of a bucket, or the fewest?",
        {FULL: "num_bytes + parameter.nbytes > bucket_bytes"},
        shows=OTHERS,
    ),
    Edit(
        "Your buckets hold numbers of four bytes, whatever the model has. In which precision are "
        "its gradients?",
        {ZEROS: "torch.zeros(sum(lengths))", VIEW: f"{VIEW}.to(each.dtype)"},
        shows=("other_buckets", "gradients_apart"),
    ),
    Edit(
        "All parameters are in one bucket. How many bytes end the first one?",
        {FULL: "not groups"},
        shows=OTHERS[:1],
    ),
    Edit(
        "The last bucket is missing where it does not become full. What is still waiting when "
        "your loop is over?",
        {MADE: f"if num_bytes < bucket_bytes:\n        groups.pop()\n    {MADE}"},
        shows=(*OTHERS, "gradients_apart"),
    ),
    Edit(ALONE, {BEGIN: "        groups.append([])\n"}, shows=OTHERS[:1]),
    Edit(ALONE, {BEGIN: "        groups.append([])\n", LIST: "model.parameters()"}, shows=OTHERS),
    Edit(
        "You return no bucket at all. Who will send them, and what does that one need?",
        {"return made": "return []"},
        shows=OTHERS[:1],
    ),
    Edit(APART, {VIEW: f"{VIEW}.clone()"}, shows=("gradients_apart",)),
    Edit(APART, {VIEW: "torch.zeros_like(each)"}, shows=("gradients_apart",)),
    Edit(
        "After backward gradients are no numbers. Backward adds to what is in grad: what "
        "stands in your buckets before?",
        {"new_zeros": "new_empty"},
        shows=("gradient_length",),
    ),
    Edit(
        COPIED,
        {ZEROS: "torch.cat([torch.zeros_like(each).flatten() for each in group])"},
        shows=PEAK,
    ),
    Edit(
        COPIED,
        {MADE: f"{MADE}\n    {ZEROS_FIRST}", ZEROS: "joined(group)"},
        shows=PEAK,
    ),
    Edit(
        COPIED,
        {
            f"{MADE}\n    for group in groups:": f"{ZEROS_FIRST}"
            "    made = [joined(group) for group in groups]\n"
            "    for flat, group in zip(made, groups, strict=True):",
            f"        made.append({ZEROS})\n": "",
            "made[-1].split": "flat.split",
        },
        shows=PEAK,
    ),
    *(
        Edit(
            "Your buckets are pieces of longer tensors: more memory is taken than the gradients "
            "fill. What are the bytes behind the last gradient for?",
            {ZEROS: f"group[0].new_zeros(sum(lengths) + {padding})[: sum(lengths)]"},
            shows=(*PEAK, "bytes_left"),
        )
        for padding in ("8 - sum(lengths) % 8", "-sum(lengths) % 8")
    ),
    Edit(
        "Some models have numbers of four bytes. Who knows how many bytes a parameter has?",
        {"parameter.nbytes": "8 * parameter.numel()"},
        shows=OTHERS,
    ),
    Edit(
        "Autograd follows your buckets, so that no all-reduce may write into them. Which of your "
        "tensors want a gradient of their own?",
        {ZEROS: ZEROS.replace("lengths))", "lengths), requires_grad=True)")},
        shows=("followed_buckets",),
    ),
    Edit(
        CHANGES_MODEL,
        {VIEW: f"{VIEW}\n            each.data = view.view_as(each)"},
        shows=("gradient_length", "wrong_gradients", "changes_model"),
    ),
)

CHECK = Check(
    cases=memory_cases,
    observe=memory.observe,
    judge=Behaviour(
        measured,
        *edited("u09-memory", EDITS, observe=memory.observe),
        labels=LABELS
        | {
            "followed_buckets": "buckets that autograd follows",
            "gradients_apart": "gradients that backward fills outside of the buckets",
            "wrong_gradients": "wrong gradients after backward",
            "peak_bytes": "bytes that the call takes at its peak",
            "bytes_left": "bytes that are left of it",
        },
        summarise=memory.summarise,
    ),
    fallback="course_utils.reference.bucketing.make_buckets",
    answers=BUCKETERS,
)
