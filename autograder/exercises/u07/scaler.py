"""Check of a loss scaler: step by step beside PyTorch's own."""

import functools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, undisturbed
from autograder.exercises.u07.shared.loss_scaler import FlawedScaler, LossScaler, gradients_of

SCENARIOS = ("growth", "overflow", "one after the other", "one without gradient")
NAMES = ("scenario", "scale", "growth_factor", "backoff_factor", "growth_interval", "steps")

# The loss is a mean over many tokens: unscaled gradients are so small that fp16 has few bits left.
SHARE_OF_A_TOKEN = 2.0**-18
# Gradients of "large" steps are beyond fp16 from a scale of 2**20 on.
LARGE = 2.0**14
BAD = {"inf": math.inf, "nan": math.nan}
NUM_NUMBERS = 4

KEYS = (
    *("losses_not_scaled", "losses_changed", "wrong_gradients", "doublings_of_gradients"),
    *("steps_taken", "wrong_weights", "other_scales", "sum_of_scales", "wrong_returns"),
    "wrong_when_skipped",
)
FLAWS = [name for name in KEYS if name not in ("steps_taken", "sum_of_scales")]

Numbers = dict[str, int | float]


def scaler_cases(seed: int) -> list[Case]:
    """Growth after 1 to 4 steps; each kind of overflow in the first step, later and in a row."""
    rng = random.Random(seed)
    good = ["good"]
    cases = [_case(rng, "growth", good * 5, interval=2) | {"scale": 2.0**10}]
    cases += [_case(rng, "growth", good * rng.randint(5, 8), interval=n) for n in (1, 2, 3, 4)]
    for steps in (
        ["inf", *good * 3],
        ["nan", *good * 3],
        [*good, "inf", "inf", "inf", *good],
        [*good, "inf in the first", *good * 2],
        [*good, "nan in the second", *good * 2],
        ["inf in the second", "nan in the first", *good * 2],
    ):
        cases.append(_case(rng, "overflow", steps, interval=rng.randint(7, 9)))
    for steps in (
        [*good * 2, "inf", *good * 3],
        [*good * 2, "nan", *good * 3, "inf", *good * 4],
        [*good, "inf", *good * 2, "inf", *good * 3],
        [*good * 4, "inf in the first", *good * 6],
    ):
        cases.append(_case(rng, "one after the other", steps, interval=3))
    cases.append(_case(rng, "one after the other", ["large"] * 8, interval=2) | {"scale": 2.0**22})
    cases.append(_case(rng, "one after the other", [*good, "nan"] * 3, interval=1))
    for steps, interval in (
        (good * 4, 2),
        (["inf", *good * 3], 2),
        ([*good * 2, "nan", *good * 3], 3),
    ):
        cases.append(_case(rng, "one without gradient", steps, interval=interval))
    return cases


def _case(rng: random.Random, scenario: str, steps: Sequence[str], *, interval: int) -> Case:
    growth_factor, backoff_factor = rng.choice((2.0, 4.0)), rng.choice((0.5, 0.25))
    sizes = (scenario, 2.0 ** rng.randint(12, 15), growth_factor, backoff_factor, interval)
    return dict(zip(NAMES, (*sizes, list(steps)), strict=True))


class _Trial:
    """Weights in two groups, one scenario's also without a gradient, and a loss for each step."""

    def __init__(self, scenario: str) -> None:
        self.weights = [nn.Parameter(torch.full((NUM_NUMBERS,), value)) for value in (1.0, 2.0)]
        self.generator = torch.Generator().manual_seed(len(scenario))
        idle = [nn.Parameter(torch.ones(NUM_NUMBERS))] * (scenario == "one without gradient")
        # the idle weight comes first, so that every answer meets it
        first, second = self.weights
        groups = [{"params": [*idle, first]}, {"params": [second]}]
        self.optimizer = SGD(groups, 2.0**10, momentum=0.5, foreach=False)
        self.num_steps = 0
        self.optimizer.register_step_post_hook(self._count)

    def _count(self, *given: object) -> None:
        self.num_steps += 1

    def loss(self, step: str) -> Tensor:
        """A mean over many tokens, whose gradient is as the name of the step says."""
        kind, _, where = step.partition(" in the ")
        total = torch.zeros(())
        for weight, name in zip(self.weights, ("first", "second"), strict=True):
            factors = 0.25 + torch.rand(NUM_NUMBERS, generator=self.generator)
            if kind == "large":
                factors *= LARGE
            elif kind in BAD and where in ("", name):
                factors[1] = BAD[kind]
            total = total + (weight.half() * factors.half()).float().sum()
        return total * SHARE_OF_A_TOKEN


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """The student's scaler beside PyTorch's, over all steps of a case."""
    with undisturbed():
        return _observed(answer, *case.values())


class _OracleStep(NamedTuple):
    """What is there after one step with PyTorch's scaler."""

    is_good: bool
    gradients: list[Tensor]
    weights: list[Tensor]
    scale: float


@functools.lru_cache(maxsize=4096)
def _oracle_steps(
    scenario: str, settings: tuple[Any, ...], steps: tuple[str, ...]
) -> list[_OracleStep]:
    """All steps of a case with `torch.amp.GradScaler`."""
    scale, growth_factor, backoff_factor, growth_interval = settings
    scaler = torch.amp.GradScaler(
        "cpu",
        init_scale=scale,
        growth_factor=growth_factor,
        backoff_factor=backoff_factor,
        growth_interval=growth_interval,
    )
    trial, seen = _Trial(scenario), []
    for step in steps:
        trial.optimizer.zero_grad()
        scaler.scale(trial.loss(step)).backward()
        before = trial.num_steps
        scaler.step(trial.optimizer)
        scaler.update()
        weights = [weight.detach().clone() for weight in trial.weights]
        is_good = trial.num_steps > before
        seen.append(
            _OracleStep(is_good, gradients_of(trial.optimizer), weights, scaler.get_scale())
        )
    return seen


def _observed(answer: Any, scenario: str, *sizes: Any) -> Numbers:
    *settings, steps = sizes
    trial, scaler = _Trial(scenario), answer(*settings)
    seen: Numbers = dict.fromkeys(KEYS, 0)
    oracles = _oracle_steps(scenario, tuple(settings), tuple(steps))
    for step, oracle in zip(steps, oracles, strict=True):
        trial.optimizer.zero_grad()
        loss = trial.loss(step)
        before = loss.detach().clone()
        scaled = scaler.scaled(loss)
        seen["losses_not_scaled"] += not _is_scaled(scaled, before, float(scaler.scale))
        seen["losses_changed"] += not torch.allclose(loss, before, equal_nan=True)
        scaled.backward()
        has_stepped = scaler.step(trial.optimizer)
        _count_wrong_gradients(seen, gradients_of(trial.optimizer), oracle, scenario)
        scaler.update()
        seen["other_scales"] += float(scaler.scale) != oracle.scale
        seen["sum_of_scales"] += float(scaler.scale)
        seen["wrong_weights"] += not all(map(torch.equal, trial.weights, oracle.weights))
        seen["wrong_returns"] += has_stepped is None or bool(has_stepped) != oracle.is_good
    seen["steps_taken"] = trial.num_steps
    return seen


def _count_wrong_gradients(
    seen: Numbers, ours: list[Tensor], oracle: _OracleStep, scenario: str
) -> None:
    theirs = oracle.gradients
    is_right = len(ours) == len(theirs) and all(map(_is_same, ours, theirs))
    if not oracle.is_good:
        seen["wrong_when_skipped"] += scenario == "overflow" and not is_right
        return
    seen["wrong_gradients"] += not is_right
    seen["doublings_of_gradients"] += _doublings(ours[0], theirs[0]) if ours else 0


def _is_same(ours: Tensor, theirs: Tensor) -> bool:
    """Equal numbers, and NaN in the same places."""
    return torch.allclose(ours, theirs, rtol=0, atol=0, equal_nan=True)


def _is_scaled(scaled: Tensor, loss: Tensor, scale: float) -> bool:
    return torch.allclose(scaled.detach().float(), loss.detach() * scale, equal_nan=True)


def _doublings(ours: Tensor, theirs: Tensor) -> int:
    """How many times too often a gradient was doubled, by its first number, rounded."""
    ratio = float(ours[0] / theirs[0])
    return round(math.log2(ratio)) if 0 < ratio < math.inf else 0


def wanted(**case: Any) -> Numbers:
    """The course's own scaler, which must agree with PyTorch's in every step."""
    *sizes, steps = case.values()
    return _observed_with("", *sizes, tuple(steps)) | dict.fromkeys(FLAWS, 0)


@functools.lru_cache(maxsize=4096)
def _observed_with(flaw: str, *sizes: Any) -> Numbers:
    with undisturbed():
        return _observed(functools.partial(FlawedScaler, flaw), *sizes)


def _with(flaw: str, *names: str) -> Callable[..., Numbers]:
    """The numbers of a flawed scaler by which its flaw is recognised: all, if none are named."""

    def formula(*case: Any) -> Numbers:
        *sizes, steps = case
        seen = _observed_with(flaw, *sizes, tuple(steps))
        return {name: seen[name] for name in names or KEYS}

    return formula


OF_GRADIENTS = ("wrong_gradients", "doublings_of_gradients")
OF_STEPS = ("steps_taken", "wrong_weights")

CHECK = Check(
    cases=scaler_cases,
    reference=LossScaler,
    observe=observe,
    forbidden_modules=("torch.amp", "torch.cuda.amp"),
    judge=Behaviour(
        wanted,
        Mistake(
            "The loss comes back as it went in. When is it multiplied, so that the backward pass "
            "carries the factor on?",
            _with("not scaled", "losses_not_scaled"),
        ),
        Mistake(
            "The loss that came in is multiplied itself, and whoever prints it afterwards sees it "
            "so. Which operation makes a new tensor?",
            _with("scaled in place", "losses_changed"),
        ),
        Mistake(
            "Weights of the second group keep their multiplied gradients. How many groups of "
            "weights can an optimizer have?",
            _with("one group"),
        ),
        Mistake(
            "All is right but the gradients of skipped steps: those behind the first bad one are "
            "still multiplied. Where does your loop end?",
            _with("stops dividing"),
        ),
        Mistake(
            "A weight without a gradient makes you skip the step. Is what is not there an "
            "overflow?",
            _with("none is bad"),
        ),
        Mistake(
            "Your scale changes twice in one step. Who else calls the method that changes it?",
            _with("updates twice"),
        ),
        Mistake(
            "After a good step your scale changes twice. Who else calls the method that does it?",
            _with("updates good steps twice"),
        ),
        Mistake(
            "The optimizer gets gradients that are still multiplied. Who divides them, and before "
            "which call?",
            _with("not unscaled", *OF_GRADIENTS),
        ),
        Mistake(
            "The optimizer gets gradients that are multiplied a second time. What is multiplied "
            "instead of divided?",
            _with("multiplied again", *OF_GRADIENTS),
        ),
        Mistake(
            "Your gradients are too small by the scale: they are divided twice. How often does "
            "your code meet each of them in one step?",
            _with("unscaled twice", *OF_GRADIENTS),
        ),
        Mistake(
            "Your test asks the loss. Can that be finite while a gradient is not?",
            _with("loss alone"),
        ),
        Mistake(
            "An overflow in one weight is forgotten when the next one is looked at. What do you "
            "keep of each answer?",
            _with("the last alone", *OF_STEPS),
        ),
        Mistake(
            "A step is skipped only if every gradient is bad. How many bad ones are enough?",
            _with("all of them", *OF_STEPS),
        ),
        Mistake(
            "Infinities are found, and NaN passes. What is inf minus inf, and which question does "
            "your test ask?",
            _with("only inf", *OF_STEPS),
        ),
        Mistake(
            "NaN is found, and infinities pass. Which question does your test ask of a gradient?",
            _with("only nan", *OF_STEPS),
        ),
        Mistake(
            "A gradient with one bad number among good ones passes. Must one number be finite, or "
            "each?",
            _with("one finite", *OF_STEPS, "other_scales"),
        ),
        Mistake(
            "One weight overflows, and the others are updated all the same. Is half a step one "
            "that the loss asked for?",
            _with("only the bad ones", *OF_STEPS),
        ),
        Mistake(
            "Bad gradients are replaced, and the optimizer runs. What does momentum do with a "
            "gradient of zero, and who should not be called?",
            _with("zeros", *OF_STEPS),
        ),
        Mistake(
            "After one overflow all further steps are skipped. Where is your note of it taken "
            "back?",
            _with("for good", *OF_STEPS),
        ),
        Mistake(
            "The optimizer steps with gradients that are infinite. What must not happen after an "
            "overflow?",
            _with("no skip", *OF_STEPS),
        ),
        Mistake(
            "After an overflow your scale is larger. Is a factor below one multiplied or divided "
            "by?",
            _with("turned over"),
        ),
        Mistake(
            "After an overflow the scale stays. Would the next step overflow again?",
            _with("no backoff"),
        ),
        Mistake(
            "Your scale never grows. When could a larger one have been tried?",
            _with("no growth"),
        ),
        Mistake(
            "Your scale grows one good step too late. Does the count know of the step that has "
            "just been made when you compare it?",
            _with("one later"),
        ),
        Mistake(
            "Once it has grown, your scale grows at every step. Where does the count begin again?",
            _with("grows on and on"),
        ),
        Mistake(
            "It grows once, and then never again. How large is your count when the next interval "
            "is over?",
            _with("grows once"),
        ),
        Mistake(
            "Your count goes on after an overflow where it stood. Which steps in a row does the "
            "exercise ask for?",
            _with("goes on"),
        ),
        Mistake(
            "A skipped step counts as a good one. Which steps in a row does the exercise ask for?",
            _with("counts all"),
        ),
        Mistake(
            "All is right but what your step returns. What does the exercise want to know from it?",
            lambda *case: {"wrong_returns": len(case[-1])},  # in every step
        ),
        scenarios=SCENARIOS,
    ),
)
