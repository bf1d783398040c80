"""Check of gradients that are summed in fp32, and never all alive at once in bf16."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing.u08 import buffer
from autograder.observing.u08.buffer import SUMMED, inputs_of, loss_of, model_of

NUM_LAYERS = 12


def buffer_cases(seed: int) -> list[Case]:
    """One micro-batch and many; also with a frozen layer, or a weight that two layers share."""
    rng = random.Random(seed)
    cases = [_case(16, 2, "plain")]
    for num_micro_batches in (2, 1, 3, 6):
        for kind in ("plain", "frozen", "shared", "frozen", "shared"):
            cases.append(_case(rng.randint(8, 16), num_micro_batches, kind))
    return cases


def _case(width: int, num_micro_batches: int, kind: str) -> Case:
    return {
        "num_layers": NUM_LAYERS,
        "width": width,
        "num_micro_batches": num_micro_batches,
        "kind": kind,
    }


def measured(**case: Any) -> dict[str, Any]:
    """A buffer for each trainable weight, with the sum in float64, and no gradient left."""
    model = model_of(case)
    weights = [each for each in model.parameters() if each.requires_grad]
    sums = [torch.zeros_like(each, dtype=torch.float64) for each in weights]
    for x in inputs_of(case):
        gradients = torch.autograd.grad(loss_of(model, x), weights)
        sums = [total + each for total, each in zip(sums, gradients, strict=True)]
    return {
        "buffers": len(weights),
        "buffers_not_fp32": 0,
        "gradients_left": 0,
        "wrong_sums": 0,
        "length": torch.cat([each.flatten() for each in sums]).norm().item(),
        "gradients_at_once": 0,
        "sums": [each.float() for each in sums],
    }


GUARD, PARAMETERS = "if not parameter.requires_grad:", "in model.parameters():"
ADD, FREE = "total.add_(parameter.grad)", "parameter.grad = None"
HOOK = "parameter.register_post_accumulate_grad_hook(add)"
STILL_THERE = (
    "After backward, grad still holds a tensor, of gradients or of zeros. What does the exercise "
    "want to find there?"
)
EDITS = (
    Edit(
        "There is a buffer for frozen parameters, too. Which of them ever get a gradient?",
        {GUARD: "if False:", HOOK: f"if parameter.requires_grad:\n            {HOOK}"},
    ),
    Edit(
        "A weight that two layers share has two buffers. How often does a backward pass bring its "
        "gradient?",
        {
            PARAMETERS: "in (each for layer in model for each in layer.parameters()):",
            ADD: f"if parameter.grad is None:\n                return\n            {ADD}",
        },
        shows=("buffers",),
    ),
    Edit(
        "Your buffers are not in fp32. Which precision do you give them, and which one should a "
        "sum of many small numbers have here?",
        {"torch.float32": "parameter.dtype"},
        shows=("buffers_not_fp32",),
    ),
    Edit(
        "The gradients stay in grad, and your buffers are zero. Which of your lines runs in a "
        "backward pass that comes after your function has returned?",
        {HOOK: "pass"},
    ),
    Edit(
        "Your hooks work in the first backward pass only: gradients of later ones stay in grad. "
        "For how many passes does a hook stay, and who removes it?",
        {
            "buffers = []": "buffers, handles = [], {}",
            FREE: f"{FREE}\n            handles[parameter].remove()",
            HOOK: f"handles[parameter] = {HOOK}",
        },
        shows=("gradients_left", "wrong_sums", "length"),
    ),
    Edit(STILL_THERE, {FREE: "pass"}, shows=("gradients_left",)),
    Edit(
        "Your buffers hold the gradients of the last backward pass alone. What happens to what "
        "was in a buffer before?",
        {"total.add_": "total.copy_"},
    ),
    Edit(
        "Your sums are rounded to bf16 before they go into the buffer. In which precision is the "
        "addition itself?",
        {ADD: "total.copy_(total.bfloat16() + parameter.grad)"},
    ),
    Edit(
        "No gradient is left, and your buffers are zero. Does the sum go into the memory that you "
        "return, or into a new tensor?",
        {ADD: "total = total + parameter.grad"},
        shows=("wrong_sums", "length"),
    ),
    Edit(
        "All hooks add to one buffer, the last. When does a function that is made in a loop look "
        "up a name from outside?",
        {", total: Tensor = total": ""},
    ),
    Edit(
        "Your buffers hold the right sums, in another order. Whose is the first that you return?",
        {"return buffers": "return buffers[::-1]"},
    ),
    Edit(
        "The sums are right, and all gradients in bf16 are there at once before you free them. "
        "When is the first moment at which one of them can go?",
        {
            f"{ADD}\n            {FREE}": "trainable = [p for p in model.parameters() "
            "if p.requires_grad]\n            for p, its_total in zip(trainable, buffers):\n"
            "                its_total.add_(p.grad)\n                p.grad = None",
            HOOK: f"if not buffers:\n            {HOOK}",
        },
    ),
)

CHECK = Check(
    cases=buffer_cases,
    observe=buffer.observe,
    judge=Behaviour(
        measured,
        *edited("u08-buffer", EDITS, observe=buffer.observe),
        summarise=buffer.summarise,
        questions={
            "buffers_not_fp32": "In which precision is a sum kept, and who decides that where a "
            "buffer is made?",
            "wrong_sums": "Sums are not those of all gradients. When is one added, and is it "
            "still in grad afterwards?",
            "gradients_at_once": "All bf16 gradients are there together. At which moment can one "
            "of them go?",
        },
        labels={
            "buffers_not_fp32": "buffers of another precision than fp32",
            "gradients_left": "parameters with a gradient left in grad",
            "wrong_sums": "buffers that do not hold the sum of their gradients",
            "length": "the norm of all buffers together",
            "gradients_at_once": "passes with all bf16 gradients in memory at once",
        },
        relative_tolerance=SUMMED,
    ),
    fallback="course_utils.reference.accumulation.sum_in_fp32",
    answers=(
        "course_utils.reference.accumulation.sum_in_fp32",
        "course_utils.reference.accumulation._move_gradient_to",
    ),
)
