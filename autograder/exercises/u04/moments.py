"""Check of the bytes live at the end of each phase of a training step."""

import random
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.exercises.model_answers import Edit, edited
from course_utils.instruments import fake_tensors, trace_memory

NAMES = ("num_params", "num_tensors", "kept_bytes", "step", "is_grad_freed")
MOST_STEPS = 4

Moments = dict[str, int]


def moment_cases(seed: int) -> list[Case]:
    """First and later steps; gradients freed or set to zero; one tensor and several.

    The last have more bytes than a float counts.
    """
    rng = random.Random(seed)
    models = [(rng.randint(10, 99), 2, 4 * rng.randint(5, 60))]
    models.append((rng.randint(2, 9), 1, 4 * rng.randint(5, 60)))
    models.append((rng.randint(100, 999), rng.randint(3, 9), 4 * rng.randint(5, 400)))
    sizes = [(10, 2, 100, 1, True)]
    for model in models:
        for is_grad_freed in (True, False):
            for step in (1, 2, rng.randint(3, MOST_STEPS)):
                sizes.append((*model, step, is_grad_freed))
    huge = (2**52 + 2 * rng.randint(1, 999) + 1, 3, 4 * rng.randint(2**31, 2**32))
    sizes += [(*huge, MOST_STEPS, flag) for flag in (True, False)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured_moments(
    num_params: int, num_tensors: int, kept_bytes: int, step: int, is_grad_freed: bool
) -> Moments:
    """Live bytes at the end of each phase, from a trace of real training steps."""
    return _traced(num_params, num_tensors, kept_bytes, is_grad_freed)[step - 1]


@lru_cache
def _traced(num_params: int, num_tensors: int, kept_bytes: int, is_freed: bool) -> list[Moments]:
    """Moments of the first steps of a real training run.

    Its forward pass multiplies a weight with data of ``kept_bytes``, less two numbers: the loss and
    its gradient are live then too.
    """
    with fake_tensors():
        return _of_training(num_params, num_tensors, kept_bytes, is_freed)


def _of_training(
    num_params: int, num_tensors: int, kept_bytes: int, is_freed: bool
) -> list[Moments]:
    sizes = [num_params - num_tensors + 1] + [1] * (num_tensors - 1)
    weights = nn.ParameterList(torch.ones(size) for size in sizes)
    optimizer = AdamW(weights, foreach=False)

    def loss() -> Tensor:
        data = torch.ones(kept_bytes // 4 - 2)
        sums = [weight.sum() for weight in weights]
        return torch.stack([(weights[0][:1] * data).sum(), *sums]).sum()

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=is_freed)

    trace = trace_memory(step, weights, optimizer, num_steps=MOST_STEPS)
    live = [trace.total_bytes[0], *(phase.end_bytes for phase in trace.phases)]
    names = ("before_forward", "after_forward", "after_backward", "after_step")
    return [dict(zip(names, live[3 * n :], strict=False)) for n in range(MOST_STEPS)]


# Places of the model answer.
FIRST, ADAM_THEN = "step == 1", "(0 if is_first else optimizer_states)"
ADAM, COUNTS = "2 * 4 * num_params + 4", "4 * num_tensors"
STATE, LEFT_GRADIENTS = "weights + optimizer_states", "(0 if is_grad_freed else gradients)"
START = "weights if is_first else after_step"
AFTER_FORWARD = "before_forward + kept_bytes"
AFTER_BACKWARD = f"weights + gradients + {ADAM_THEN}"
RETURNED = '"after_step": after_step'
# Those that go wrong in fewer parts are asked about first.
EDITS = (
    Edit(
        "In step 1 your optimizer states are there when the backward pass ends, and not "
        "before. Which line of a training step makes them, and when does it run?",
        {ADAM_THEN: "optimizer_states"},
        points=1.5,
    ),
    Edit(
        "At the end of step 1 your optimizer states are missing. Which line of that step has run "
        "by then?",
        {RETURNED: f"{RETURNED} - (optimizer_states if is_first else 0)"},
        points=1.5,
    ),
    *(
        Edit(
            "Your optimizer states are there before the first forward pass. Which line of a "
            "training step makes them?",
            {START: f"{STATE} if is_first else after_step", ADAM_THEN: then},
            points=points,
        )
        for then, points in (("optimizer_states", 0.5), (ADAM_THEN, 1.0))
    ),
    Edit(
        "Steps 1 and 2 are right, and from step 3 on you treat every step as the first. Is "
        "there anything that step 2 finds and step 3 does not?",
        {FIRST: "step != 2"},
        points=0.5,
    ),
    Edit(
        "You treat step 2 as the first. At the end of which step does Adam make its states?",
        {FIRST: "step <= 2"},
        points=0.5,
    ),
    Edit(
        "You treat every step as the first. What stays from the end of step 1 to the beginning "
        "of step 2?",
        {FIRST: "True"},
        points=0.5,
    ),
    Edit(
        "You treat step 1 as a later one. From which number on are steps counted, and what "
        "is there before the first?",
        {FIRST: "step == 0"},
        points=0.5,
    ),
    Edit(
        "Adam's number of steps is missing. How many bytes does it take for each tensor?",
        {f" + {COUNTS}": ""},
    ),
    Edit(
        "You count Adam's number of steps for each parameter. What does the exercise count it for?",
        {COUNTS: "4 * num_params"},
    ),
    Edit(
        "You count Adam's number of steps once. What does the exercise count it for?",
        {COUNTS: "4"},
    ),
    Edit(
        "Your gradients are never freed. What does the last argument say?",
        {LEFT_GRADIENTS: "gradients"},
        points=0.5,
    ),
    Edit(
        "Your later steps begin without the zeroed gradients. Who has freed them since?",
        {START: f"weights if is_first else {STATE}"},
        points=1.0,
    ),
    Edit(
        "You always free the gradients. How many bytes does a gradient of zeros take?",
        {LEFT_GRADIENTS: "0"},
        points=0.5,
    ),
    Edit(
        "Your gradients are freed where they should be zeroed, and zeroed where they should be "
        "freed. What does the last argument say?",
        {LEFT_GRADIENTS: LEFT_GRADIENTS.replace("if is", "if not is")},
        points=0.5,
    ),
    Edit(
        "Your Adam keeps one number for each parameter. How many running means does it keep?",
        {ADAM: "4 * num_params + 4"},
    ),
    Edit(
        "Your optimizer states are three numbers for each parameter. Is one of them the weight or "
        "the gradient, which you count already?",
        {ADAM: "3 * 4 * num_params + 4"},
    ),
    Edit(
        "Your activations outlive the backward pass. What happens to one as soon as its gradient "
        "is computed?",
        {AFTER_BACKWARD: f"{AFTER_BACKWARD} + kept_bytes"},
        points=1.5,
    ),
    Edit(
        "Your activations outlive the backward pass. What happens to one as soon as its gradient "
        "is computed?",
        {AFTER_BACKWARD: "before_forward + kept_bytes + gradients"},
        points=1.5,
    ),
    Edit(
        "After the backward pass you count the gradients twice. Where does it write them if zeros "
        "are there already?",
        {AFTER_BACKWARD: "before_forward + gradients"},
        points=1.5,
    ),
    Edit(
        "Your step 1 has gradients before its backward pass. Who made them?",
        {START: "after_step - optimizer_states if is_first else after_step"},
        points=1.0,
    ),
    *(
        Edit(
            "Your weights and gradients take two bytes a number. In which precision does the "
            "exercise train?",
            {"4 * num_params, 4 * num_params": "2 * num_params, 2 * num_params"} | master_copy,
        )
        for master_copy in ({}, {ADAM: "3 * 4 * num_params + 4"})
    ),
    Edit(
        "Your forward pass ends with gradients. Which pass makes them?",
        {AFTER_FORWARD: f"{AFTER_FORWARD} + gradients"},
        points=1.5,
    ),
    Edit(
        "Your backward pass leaves no gradients. What is it for?",
        {AFTER_BACKWARD: f"weights + {ADAM_THEN}"},
        points=1.5,
    ),
    Edit(
        "After the forward pass you count only what it keeps. What was there before it?",
        {AFTER_FORWARD: "kept_bytes"},
        points=1.5,
    ),
)

CHECK = Check(
    cases=moment_cases,
    judge=EqualTo(
        measured_moments, *edited("u04-moments", sorted(EDITS, key=lambda edit: -edit.points))
    ),
    fallback="course_utils.formulas.memory_over_time.live_at_moments",
)
