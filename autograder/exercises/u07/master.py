"""Check of an SGD step on fp32 master weights: what it changes, frees and leaves alone."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data, undisturbed
from course_utils.instruments import trace_memory

SCENARIOS = ("few weights", "many weights", "one without gradient")
NUM_WEIGHTS = dict(zip(SCENARIOS, ((2, 3), (6, 8), (3, 3)), strict=True))
RATES = (0.003, 0.007, 0.011, 0.013)
NAMES = ("scenario", "num_weights", "num_numbers", "num_steps", "learning_rate")

# Subtracting a product rounds twice in fp32, or once where it is fused: a few roundings of 6e-8 in
# all steps. A product rounded to bf16 is off by up to 4e-3 of itself.
ROUNDING = 1e-6
FP32_BYTES = 4
# fp32 tensors alive at once: a gradient and its product with the rate, for two weights in a row.
MOST_AT_ONCE = 4

Update = Callable[[list[Tensor], list[Tensor], float], object]
Oracle = Callable[[Tensor, Sequence[Tensor], float], Tensor]
Numbers = dict[str, int]


def update(weights: list[Tensor], masters: list[Tensor], learning_rate: float) -> None:
    """The course's own answer: one step of SGD on master weights."""
    with torch.no_grad():
        for weight, master in zip(weights, masters, strict=True):
            if weight.grad is not None:
                master.sub_(learning_rate * weight.grad.float())
                weight.copy_(master)
                weight.grad = None


def master_cases(seed: int) -> list[Case]:
    """Each scenario with one step and more, and weights of several sizes."""
    rng = random.Random(seed)
    sizes: list[tuple[str, int, int, int, float]] = [("few weights", 1, 1, 4, 0.01)]
    for num_steps in (1, 2, 3, 4, 5, 3, 2):
        for scenario in SCENARIOS:
            num_weights = rng.randint(*NUM_WEIGHTS[scenario])
            numbers = rng.randint(20, 40)
            sizes.append((scenario, num_weights, numbers, num_steps, rng.choice(RATES)))
    return [dict(zip(NAMES, each, strict=True)) for each in sizes]


def idle_index(scenario: str, num_weights: int, num_steps: int) -> int | None:
    """Index of the weight without a gradient: by turns one in the middle, the last, the first."""
    if scenario != "one without gradient":
        return None
    return (num_weights - 1, 0, num_weights // 2)[(num_steps + 1) % 3]


class _Trial:
    """Weights in bf16, masters in fp32, and the gradients of all steps."""

    def __init__(
        self, scenario: str, num_weights: int, num_numbers: int, num_steps: int, rate: float
    ) -> None:
        generator = torch.Generator().manual_seed(100 * num_weights + num_numbers + num_steps)
        shape = (num_steps + 1, num_weights, num_numbers)
        numbers = 0.5 + 1.5 * torch.rand(shape, generator=generator)
        if num_numbers == 1:
            numbers = torch.ones(shape)
        self.rate, self.start, self.factors = rate, numbers[0], numbers[1:].bfloat16()
        self.masters = [each.clone() for each in self.start]
        self.weights = [nn.Parameter(each.bfloat16()) for each in self.masters]
        self.idle = idle_index(scenario, num_weights, num_steps)
        if self.idle is not None:  # so that rounding its master into it shows
            self.weights[self.idle].data *= 2
        self.idle_weights = [each.detach().clone() for each in self.split(self.weights)[1]]
        # kept alive, so that no new tensor gets the memory of a replaced one
        self.storages = [each.untyped_storage() for each in self.tensors()]

    def split(self, each: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """What belongs to the weights with a gradient, and to those without."""
        trained = [one for number, one in enumerate(each) if number != self.idle]
        return trained, [one for number, one in enumerate(each) if number == self.idle]

    def tensors(self) -> list[Tensor]:
        """All weights and masters."""
        return [*self.weights, *self.masters]

    def backward(self, step: int) -> None:
        """Add the factors of this step to the gradients."""
        pairs, _ = self.split(list(zip(self.weights, self.factors[step], strict=True)))
        torch.stack([(weight * factors).sum() for weight, factors in pairs]).sum().backward()

    def run(self, answer: Update) -> int:
        """Run all steps; return the most working bytes of the last update."""
        for step in range(len(self.factors) - 1):
            self.backward(step)
            answer(list(self.weights), list(self.masters), self.rate)
        self.backward(len(self.factors) - 1)
        trace = trace_memory(lambda: self._last_update(answer), *self.tensors())
        return max(trace.working_bytes)

    def _last_update(self, answer: Update) -> None:
        torch.ones(())  # an update without any operation cannot be traced
        answer(list(self.weights), list(self.masters), self.rate)

    def num_moved(self) -> int:
        """How many tensors lie in other memory than before."""
        pairs = zip(self.storages, self.tensors(), strict=True)
        return sum(old.data_ptr() != now.untyped_storage().data_ptr() for old, now in pairs)


def _right(master: Tensor, factors: Sequence[Tensor], rate: float) -> Tensor:
    for each in factors:
        master = master - rate * each
    return master


def _by_rounded_product(master: Tensor, factors: Sequence[Tensor], rate: float) -> Tensor:
    for each in factors:
        master = master - (rate * each.bfloat16()).double()
    return master


def _from_weights(master: Tensor, factors: Sequence[Tensor], rate: float) -> Tensor:
    for each in factors:
        master = master.float().bfloat16().double() - rate * each
    return master


def _upwards(master: Tensor, factors: Sequence[Tensor], rate: float) -> Tensor:
    return _right(master, factors, -rate)


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """How many tensors have each flaw after all steps of the student's update."""
    with undisturbed():
        trial = _Trial(*case.values())
        working_bytes = trial.run(answer)
    return _observed(trial, working_bytes, case["num_numbers"])


def _observed(trial: _Trial, working_bytes: int, num_numbers: int) -> Numbers:
    trained, others = trial.split(list(zip(trial.weights, trial.masters, trial.start, strict=True)))
    return {
        "gradients_left": sum(each.grad is not None for each in trial.tensors()),
        "weights_in_fp32": sum(each.dtype != torch.bfloat16 for each in trial.weights),
        "moved": trial.num_moved(),
        "masters_as_before": sum(torch.equal(m, start) for _, m, start in trained),
        "masters_with_eight_bits": _num_rounded(trained),
        "masters_from_weights": _num_only_explained_by(_from_weights, trial),
        "masters_by_rounded_product": _num_only_explained_by(_by_rounded_product, trial),
        "masters_upwards": _num_explained_by(_upwards, trial),
        "wrong_masters": len(trained) - _num_explained_by(_right, trial),
        "wrong_weights": sum(not torch.equal(w, m.bfloat16()) for w, m, _ in trained),
        "changed_without_gradient": sum(
            not (torch.equal(master, start) and torch.equal(weight, before))
            for (weight, master, start), before in zip(others, trial.idle_weights, strict=True)
        ),
        "too_much_at_once": int(working_bytes > MOST_AT_ONCE * FP32_BYTES * num_numbers),
    }


def _num_explained_by(oracle: Oracle, trial: _Trial) -> int:
    """How many masters are where the steps of an oracle lead."""
    factors = trial.factors.double().unbind(1)
    trained, _ = trial.split(list(zip(trial.masters, trial.start, factors, strict=True)))
    wanted = (oracle(start.double(), steps.unbind(), trial.rate) for _, start, steps in trained)
    return sum(
        torch.allclose(master.double(), each, rtol=ROUNDING, atol=0)
        for (master, _, _), each in zip(trained, wanted, strict=True)
    )


def _num_only_explained_by(wrong: Oracle, trial: _Trial) -> int:
    """How many masters a wrong oracle explains, or zero if the right one explains any."""
    return _num_explained_by(wrong, trial) if not _num_explained_by(_right, trial) else 0


def _num_rounded(trained: Sequence[tuple[Tensor, Tensor, Tensor]]) -> int:
    """How many masters changed and are numbers of bf16."""
    trained = [each for each in trained if not torch.equal(each[1], each[2])]
    return sum(torch.equal(master, master.bfloat16().float()) for _, master, _ in trained)


def wanted(**case: Any) -> Numbers:
    """No tensor has any flaw."""
    trial = _Trial(*case.values())
    return dict.fromkeys(_observed(trial, 0, case["num_numbers"]), 0)


def _in_all(*flaws: str) -> Callable[..., Numbers]:
    """These flaws in every weight that has a gradient."""

    def formula(scenario: str, num_weights: int, *rest: Any) -> Numbers:
        return dict.fromkeys(flaws, num_weights - (scenario == "one without gradient"))

    return formula


def _stopped_at_idle(
    scenario: str, num_weights: int, _: int, num_steps: int, *rest: Any
) -> Numbers:
    """Every weight after the one without a gradient stays as it was."""
    idle = idle_index(scenario, num_weights, num_steps)
    num_left = 0 if idle is None else num_weights - 1 - idle
    return dict.fromkeys(("gradients_left", "masters_as_before", "wrong_masters"), num_left)


CHECK = Check(
    cases=master_cases,
    reference=update,
    observe=observe,
    judge=Behaviour(
        wanted,
        Mistake(
            "Weights behind the one without a gradient are left out. Does your loop go on there, "
            "or end?",
            _stopped_at_idle,
        ),
        Mistake(
            "Gradients are still there after your step, and the next backward pass adds to them. "
            "What has a gradient to be set to, so that its memory is freed?",
            _in_all("gradients_left"),
        ),
        Mistake(
            "Your weights are in fp32 now. Which operation copies numbers into a tensor that is "
            "there, and rounds them to its precision?",
            _in_all("weights_in_fp32"),
        ),
        Mistake(
            "The numbers stand in new memory. Who else may hold the old tensors, and which "
            "operation writes into those?",
            _in_all("moved"),
        ),
        Mistake(
            "Your masters are as they were before the first step. Which tensor does your line "
            "change, or does it only give a name to a new one?",
            _in_all("masters_as_before", "wrong_masters"),
        ),
        Mistake(
            "Your masters hold numbers of 8 bits, as bf16 does. Which of the two is updated, and "
            "which one is made from the other?",
            _in_all("masters_with_eight_bits", "wrong_masters"),
        ),
        Mistake(
            "Your masters begin every step at the rounded weights, so that a small update is lost "
            "after all. What has to live on from one step to the next?",
            _in_all("masters_from_weights", "wrong_masters"),
        ),
        Mistake(
            "Your masters are a little off, as if each update had 8 bits. In which precision is a "
            "gradient when it meets the learning rate?",
            _in_all("masters_by_rounded_product", "wrong_masters"),
        ),
        Mistake(
            "Your masters go up where the loss goes up. Which sign has a step of SGD?",
            _in_all("masters_upwards", "wrong_masters"),
        ),
        Mistake(
            "Your masters are right, and the weights do not follow. Does your line write into the "
            "weight, or give its name to something new?",
            _in_all("wrong_weights"),
        ),
        Mistake(
            "A weight without a gradient has changed. Which of your lines reach it all the same?",
            lambda *case: {"changed_without_gradient": 1},
        ),
        Mistake(
            "All is right, and yet several gradients are in fp32 at once. When is one of them "
            "needed no more?",
            lambda *case: {"too_much_at_once": 1},
        ),
        scenarios=SCENARIOS,
    ),
)
