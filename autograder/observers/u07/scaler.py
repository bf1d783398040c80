"""What is observed of a loss scaler: losses, gradients, weights and scales, step by step."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.tools import (
    errors_as_data,
    require_one_number,
    require_tensor,
    undisturbed,
)

# The loss is a mean over many tokens: unscaled gradients are so small that fp16 has few bits left.
SHARE_OF_A_TOKEN = 2.0**-18
NUM_NUMBERS = 4
RATE = 2.0**10
# Gradients of "large" steps are scale * 2**-18 * 2**14 times 0.25 to 1.25: some are beyond fp16's
# 65,504 at a scale of 2**20, all of them from 2**22 on.
LARGE = 2.0**14
BAD = {"inf": math.inf, "nan": math.nan}
# Each gradient of a "huge" step is finite, and the sum of two is not: this catches who tests the
# sum of all gradients for inf. At a scale of one only.
HUGE, HUGE_RATE = 2.0**127, 2.0**-127

Gradients = list[list[float] | None]


class Trial:
    """Weights in two groups, one scenario's also without a gradient, and a loss for each step."""

    def __init__(self, scenario: str, steps: Sequence[str]) -> None:
        self.weights = [nn.Parameter(torch.full((NUM_NUMBERS,), value)) for value in (1.0, 2.0)]
        self.generator = torch.Generator().manual_seed(len(scenario))
        idle = [nn.Parameter(torch.ones(NUM_NUMBERS))] * (scenario == "one without gradient")
        # the idle weight comes first, so that every answer meets it
        first, second = self.weights
        groups = [{"params": [*idle, first]}, {"params": [second]}]
        rate = HUGE_RATE if "huge" in steps else RATE
        self.optimizer = torch.optim.SGD(groups, rate, momentum=0.5, foreach=False)
        self.num_steps = 0
        self.optimizer.register_step_post_hook(self._count)

    def _count(self, *given: object) -> None:
        self.num_steps += 1

    def gradients(self) -> Gradients:
        """Those of both weights."""
        return [None if each.grad is None else each.grad.tolist() for each in self.weights]

    def loss(self, step: str) -> Tensor:
        """A mean over many tokens, whose gradient is as the name of the step says."""
        kind, _, where = step.partition(" in the ")
        if kind == "nothing":  # as that of another optimizer's weights
            return torch.ones((), requires_grad=True) * SHARE_OF_A_TOKEN
        if kind == "huge":
            weights = torch.stack(tuple(self.weights))
            return (weights - weights.detach()).sum() * HUGE  # the loss is 0, its gradient is HUGE
        total = torch.zeros(())
        for weight, name in zip(self.weights, ("first", "second"), strict=True):
            factors = 0.25 + torch.rand(NUM_NUMBERS, generator=self.generator)
            if kind == "large":
                factors *= LARGE
            elif kind in BAD and where in ("", name):
                factors[1] = BAD[kind]
            elif kind == "all":
                factors *= math.inf
            elif kind == "opposite":
                factors[1], factors[2] = math.inf, -math.inf
            total = total + (weight.half() * factors.half()).float().sum()
        return total * SHARE_OF_A_TOKEN


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """Every step of the student's scaler: what came in, what went out, and what is there then."""
    scenario, *settings, steps = case.values()
    with undisturbed():
        trial, scaler = Trial(scenario, steps), answer(*settings)
        return [_observed(trial, scaler, step) for step in steps]


def _observed(trial: Trial, scaler: Any, step: str) -> dict[str, Any]:
    trial.optimizer.zero_grad()
    loss, scale = trial.loss(step), float(scaler.scale)
    before = loss.item()
    scaled = require_tensor(scaler.scaled(loss))
    went_in = {"scale_before": scale, "loss": before}
    came_out = {"scaled": require_one_number(scaled, "a loss, one number"), "after": loss.item()}
    scaled.backward()
    returned = scaler.step(trial.optimizer)
    gradients, num_steps = trial.gradients(), trial.num_steps
    scaler.update()
    return {
        **went_in,
        **came_out,
        "returned": None if returned is None else bool(returned),
        "gradients": gradients,
        "num_steps": num_steps,
        "scale": float(scaler.scale),
        "weights": [each.tolist() for each in trial.weights],
    }


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """How many steps have each flaw, and all scales together."""
    steps = right["of_torch"]
    pairs = [*zip(observed, steps, strict=True)]
    good = [(ours, theirs) for ours, theirs in pairs if theirs["is_good"]]
    skipped = [pair for pair in pairs if not pair[1]["is_good"]]
    if case["scenario"] != "overflow":  # elsewhere it may leave gradients as it likes
        skipped = []
    return [
        Fact(
            "not_scaled",
            sum(not _is_scaled(each) for each in observed),
            "losses that are not multiplied by the scale",
            "By what does `scaled` multiply the loss, if at all?",
        ),
        Fact(
            "losses_changed",
            sum(not _is_same(each["after"], each["loss"]) for each in observed),
            "losses modified in place",
            "Which operation in `scaled` writes into the loss that came in, and what else may "
            "read that loss afterwards?",
        ),
        Fact(
            "gone",
            sum(_num_there(ours) != _num_there(theirs) for ours, theirs in good),
            "good steps after which gradients are gone",
            "What does a good step do to `.grad` besides dividing it, and which line of a "
            "training loop clears gradients?",
        ),
        Fact(
            "wrong_first",
            sum(_is_other(0, *pair) for pair in good),
            "good steps with wrong gradients in the first group",
            "Gradients are wrong when the optimizer looks at them. By what are they divided, and "
            "how often in one step?",
        ),
        Fact(
            "wrong_second",
            sum(_is_other(1, *pair) for pair in good),
            "good steps with wrong gradients in the second group",
            "Gradients of the first group are right. Which groups and which weights does `step` go "
            "through, and what does it do to a gradient of the second group?",
        ),
        Fact(
            "doublings",
            sum(_doublings(*pair) for pair in good),
            "doublings too many of the gradients",
            "By which factor is a gradient too large or too small after a good step, and how does "
            "that factor compare with the scale?",
        ),
        Fact(
            "steps",
            observed[-1]["num_steps"],
            "steps of the optimizer",
            "The number of steps is wrong. What makes a step one to skip, and how does your code "
            "test for it?",
        ),
        Fact(
            "wrong_weights",
            sum(ours["weights"] != theirs["weights"] for ours, theirs in pairs),
            "steps after which weights are wrong",
            "The number of steps is right, the weights are not. In which steps does the optimizer "
            "run, and what is in every gradient at that moment?",
        ),
        Fact(
            "other_scales",
            sum(ours["scale"] != theirs["scale"] for ours, theirs in pairs),
            "steps after which the scale is wrong",
            "The scale is wrong after some step. Go through the steps by hand: how many good ones "
            "have been in a row, and what starts the count again?",
        ),
        Fact(
            "sum_of_scales",
            sum(each["scale"] for each in observed),
            "the scales of all steps together",
            "Write the scale after each step beside the one that the rule gives by hand. After "
            "which step do they first differ, and was that step taken or skipped?",
        ),
        Fact(
            "wrong_returns",
            sum(ours["returned"] is not theirs["is_good"] for ours, theirs in pairs),
            "steps with a wrong return value",
            "What does `step` return after a good step and after a skipped one, on every path "
            "through your code?",
        ),
        Fact(
            "gone_when_skipped",
            sum(_num_there(ours) != _num_there(theirs) for ours, theirs in skipped),
            "skipped steps after which gradients are gone",
            "Which line of a skipped step sets `.grad` of a weight, and which line of a training "
            "loop clears gradients?",
        ),
        Fact(
            "wrong_when_skipped",
            sum(_is_other(0, *pair) or _is_other(1, *pair) for pair in skipped),
            "skipped steps with wrong gradients",
            "Look at every gradient after a skipped step. Which ones has `step` divided by the "
            "scale, and does anything else change them?",
        ),
    ]


def _is_scaled(step: Plain) -> bool:
    """Whether the loss is multiplied, in fp32 at most a rounding away."""
    wanted = step["loss"] * step["scale_before"]
    return _is_same(step["scaled"], wanted) or math.isclose(step["scaled"], wanted, rel_tol=1e-5)


def _is_same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _num_there(step: Plain) -> int:
    return sum(each is not None for each in step["gradients"])


def _is_other(weight: int, ours: Plain, theirs: Plain) -> bool:
    """Whether a gradient is another one; NaN is like NaN."""
    one, other = ours["gradients"][weight], theirs["gradients"][weight]
    if one is None or other is None:
        return one is not other
    return not all(map(_is_same, one, other))


def _doublings(ours: Plain, theirs: Plain) -> int:
    """By which power of two the first number of a gradient is too large; negative if too small."""
    one, other = ours["gradients"][0], theirs["gradients"][0]
    if not one or not other or not other[0]:
        return 0
    ratio = one[0] / other[0]
    return round(math.log2(ratio)) if 0 < ratio < math.inf else 0
