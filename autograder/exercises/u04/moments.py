"""Check of the bytes live at the end of each phase of a training step."""

import random
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from course_utils.instruments import trace_memory

NAMES = ("num_params", "num_tensors", "kept_bytes", "step", "is_grad_let_go")
MOST_STEPS = 4
BEFORE_STATES_CHANGE = ("before_forward", "after_forward", "after_backward")

Moments = dict[str, int]
Formula = Callable[[int, int, int, int, bool], Moments]


def moment_cases(seed: int) -> list[Case]:
    """First and later steps; gradients freed or set to zero; one tensor and several."""
    rng = random.Random(seed)
    models = [(10, 2, 100)]
    models.append((rng.randint(2, 9), 1, 4 * rng.randint(5, 60)))
    models.append((rng.randint(100, 999), rng.randint(3, 9), 4 * rng.randint(5, 400)))
    sizes = [(10, 2, 100, 1, True)]
    for model in models:
        for is_grad_let_go in (True, False):
            for step in (1, 2, rng.randint(3, MOST_STEPS)):
                sizes.append((*model, step, is_grad_let_go))
    sizes += [(*models[rng.randrange(3)], MOST_STEPS, flag) for flag in (True, False)]
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def measured_moments(
    num_params: int, num_tensors: int, kept_bytes: int, step: int, is_grad_let_go: bool
) -> Moments:
    """Live bytes at the end of each phase, from a trace of real training steps."""
    return _traced(num_params, num_tensors, kept_bytes, is_grad_let_go)[step - 1]


@lru_cache
def _traced(num_params: int, num_tensors: int, kept_bytes: int, let_go: bool) -> list[Moments]:
    """Moments of the first steps of a real training run.

    Its forward pass multiplies a weight with data of ``kept_bytes``, less two numbers: the loss and
    its gradient are live then too.
    """
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
        optimizer.zero_grad(set_to_none=let_go)

    trace = trace_memory(step, weights, optimizer, num_steps=MOST_STEPS)
    live = [trace.total_bytes[0], *(phase.end_bytes for phase in trace.phases)]
    names = ("before_forward", "after_forward", "after_backward", "after_step")
    return [dict(zip(names, live[3 * n :], strict=False)) for n in range(MOST_STEPS)]


def moments(
    num_params: int, num_tensors: int, kept_bytes: int, step: int, is_grad_let_go: bool
) -> Moments:
    """The course's own answer, under the name that the exercise asks for."""
    weights = gradients = 4 * num_params
    states = 8 * num_params + 4 * num_tensors
    there = weights + (states if step > 1 else 0)
    before = there + (gradients if step > 1 and not is_grad_let_go else 0)
    return {
        "before_forward": before,
        "after_forward": before + kept_bytes,
        "after_backward": there + gradients,
        "after_step": weights + states + (0 if is_grad_let_go else gradients),
    }


def _changed(change: Callable[[int, int, int, int, bool], Moments]) -> Formula:
    """The right numbers, with something added to some of them."""

    def formula(n: int, t: int, kept: int, step: int, let_go: bool) -> Moments:
        right = moments(n, t, kept, step, let_go)
        return {name: right[name] + more for name, more in change(n, t, kept, step, let_go).items()}

    return formula


def _other_states(more: Callable[[int, int], int]) -> Formula:
    """Optimizer states with more bytes, wherever there are any."""

    def change(n: int, t: int, kept: int, step: int, let_go: bool) -> Moments:
        early = more(n, t) if step > 1 else 0
        return dict.fromkeys(BEFORE_STATES_CHANGE, early) | {"after_step": more(n, t)}

    return _changed(change)


def _old_gradients(more: Callable[[int, bool], int]) -> Formula:
    """Gradients with more bytes, where they come from an earlier backward pass."""

    def change(n: int, t: int, kept: int, step: int, let_go: bool) -> Moments:
        early = more(n, let_go) if step > 1 else 0
        return {"before_forward": early, "after_forward": early, "after_step": more(n, let_go)}

    return _changed(change)


CHECK = Check(
    cases=moment_cases,
    reference=moments,
    judge=EqualTo(
        measured_moments,
        Mistake(
            "Your optimizer states are there before the first forward pass. Which line of a "
            "training step makes them?",
            _changed(
                lambda n, t, kept, step, let_go: dict.fromkeys(
                    BEFORE_STATES_CHANGE, 8 * n + 4 * t if step == 1 else 0
                )
            ),
        ),
        Mistake(
            "Every step is as the first with you. What stays from the end of step 1 to the "
            "beginning of step 2?",
            lambda n, t, kept, step, let_go: moments(n, t, kept, 1, let_go),
        ),
        Mistake(
            "Adam's number of steps is missing. How many bytes does it take for each tensor?",
            _other_states(lambda n, t: -4 * t),
        ),
        Mistake(
            "You count Adam's number of steps for each parameter. For what does the exercise count "
            "it?",
            _other_states(lambda n, t: 4 * (n - t)),
        ),
        Mistake(
            "Your gradients are never freed. What does the last argument say?",
            _old_gradients(lambda n, let_go: 4 * n if let_go else 0),
        ),
        Mistake(
            "Later steps begin without their zeroed gradients. Who has freed them since the last "
            "step?",
            _changed(
                lambda n, t, kept, step, let_go: dict.fromkeys(
                    ("before_forward", "after_forward"), 0 if let_go or step == 1 else -4 * n
                )
            ),
        ),
        Mistake(
            "Your gradients always go. How many bytes does a gradient of zeros take?",
            _old_gradients(lambda n, let_go: 0 if let_go else -4 * n),
        ),
        Mistake(
            "Your Adam keeps one number for each parameter. How many running means has it?",
            _other_states(lambda n, t: -4 * n),
        ),
        Mistake(
            "Your activations outlive the backward pass. What is done with one as soon as its "
            "gradient is computed?",
            _changed(lambda n, t, kept, step, let_go: {"after_backward": kept}),
        ),
        Mistake(
            "Your gradients are there twice after the backward pass. Where does it put them when "
            "zeros are there already?",
            _changed(
                lambda n, t, kept, step, let_go: {
                    "after_backward": 0 if let_go or step == 1 else 4 * n
                }
            ),
        ),
        Mistake(
            "Your optimizer states are three numbers for each parameter. Is one of them the weight "
            "or the gradient, which you count already?",
            _other_states(lambda n, t: 4 * n),
        ),
        Mistake(
            "Step 1 has gradients before its first backward pass with you. Who made them?",
            _changed(
                lambda n, t, kept, step, let_go: dict.fromkeys(
                    ("before_forward", "after_forward"), 4 * n if step == 1 and not let_go else 0
                )
            ),
        ),
        Mistake(
            "Your backward pass leaves no gradients. What is it for?",
            _changed(lambda n, t, kept, step, let_go: {"after_backward": -4 * n}),
        ),
        Mistake(
            "What the forward pass keeps is all that you count after it. What was there before it?",
            lambda n, t, kept, step, let_go: {"after_forward": kept},
        ),
    ),
)
