"""Check of a step on master weights: what it changes, in which precision, and what it leaves."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.counted_layers import tells_errors, undisturbed
from course_utils.instruments import trace_memory

SCENARIOS = ("few weights", "many weights", "one without gradient")
NUM_WEIGHTS = dict(zip(SCENARIOS, ((2, 3), (6, 8), (3, 3)), strict=True))
RATES = (0.003, 0.007, 0.011, 0.013)
NAMES = ("scenario", "num_weights", "num_numbers", "num_steps", "learning_rate")

# Subtracting a product rounds twice in fp32, or once where both are one operation: a few roundings
# of 6e-8 in as many steps. A product rounded to bf16 is off by up to 4e-3 of itself.
ROUNDING = 1e-6
FP32_BYTES = 4
# In fp32 may live at once: a gradient, its product with the rate, and both of the weight before.
MOST_AT_ONCE = 4

Update = Callable[[list[Tensor], list[Tensor], float], object]
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


def idle_place(scenario: str, num_weights: int, num_steps: int) -> int | None:
    """Number of the weight without a gradient: by turns one in the middle, the last, the first."""
    if scenario != "one without gradient":
        return None
    return (num_weights - 1, 0, num_weights // 2)[(num_steps + 1) % 3]


class _Trial:
    """Weights in bf16, masters in fp32, and the gradients of some steps."""

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
        self.idle = idle_place(scenario, num_weights, num_steps)
        if self.idle is not None:  # it is not what its master would be rounded to
            self.weights[self.idle].data *= 2
        self.idle_weights = [each.detach().clone() for each in self._split(self.weights)[1]]
        # held on to, so that nothing else gets the memory of one that was replaced
        self.storages = [each.untyped_storage() for each in self._tensors()]

    def _split(self, each: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """What belongs to the weights with a gradient, and to those without."""
        trained = [one for number, one in enumerate(each) if number != self.idle]
        return trained, [one for number, one in enumerate(each) if number == self.idle]

    def _tensors(self) -> list[Tensor]:
        return [*self.weights, *self.masters]

    def backward(self, step: int) -> None:
        """Gradients that are the factors of this step, added to what is there."""
        pairs, _ = self._split(list(zip(self.weights, self.factors[step], strict=True)))
        torch.stack([(weight * factors).sum() for weight, factors in pairs]).sum().backward()

    def run(self, answer: Update) -> int:
        """All steps; the most bytes that the last update had at work at once."""
        for step in range(len(self.factors) - 1):
            self.backward(step)
            answer(list(self.weights), list(self.masters), self.rate)
        self.backward(len(self.factors) - 1)
        trace = trace_memory(lambda: self._last_update(answer), *self.weights, *self.masters)
        return max(trace.working_bytes)

    def _last_update(self, answer: Update) -> None:
        torch.ones(())  # an answer may do nothing at all, which cannot be traced
        answer(list(self.weights), list(self.masters), self.rate)

    def num_moved(self) -> int:
        """Tensors that lie elsewhere than before."""
        pairs = zip(self.storages, self._tensors(), strict=True)
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


def _is_near(ours: Tensor, theirs: Tensor) -> bool:
    return torch.allclose(ours.double(), theirs, rtol=ROUNDING, atol=0)


@tells_errors
def observe(answer: Any, case: Case) -> object:
    """Which of the tensors are as they should be after some steps of the student's update."""
    with undisturbed():
        trial = _Trial(*case.values())
        working_bytes = trial.run(answer)
    return _observed(trial, working_bytes, case["num_numbers"])


def _observed(trial: _Trial, working_bytes: int, num_numbers: int) -> Numbers:
    trained, others = trial._split(
        list(zip(trial.weights, trial.masters, trial.start, strict=True))
    )
    every = (*trial.weights, *trial.masters)

    def explained_by(oracle: Callable[[Tensor, Sequence[Tensor], float], Tensor]) -> int:
        factors, _ = trial._split(trial.factors.double().unbind(1))
        wanted = [
            oracle(start.double(), steps.unbind(), trial.rate)
            for (_, _, start), steps in zip(trained, factors, strict=True)
        ]
        near = zip(trained, wanted, strict=True)
        return sum(_is_near(master, each) for (_, master, _), each in near)

    return {
        "gradients_left": sum(each.grad is not None for each in every),
        "weights_in_fp32": sum(each.dtype != torch.bfloat16 for each in trial.weights),
        "moved": trial.num_moved(),
        "masters_as_before": sum(torch.equal(m, start) for _, m, start in trained),
        "masters_with_eight_bits": _num_rounded(trained),
        "masters_from_weights": _beside(explained_by, _from_weights),
        "masters_by_rounded_product": _beside(explained_by, _by_rounded_product),
        "masters_upwards": explained_by(_upwards),
        "wrong_masters": len(trained) - explained_by(_right),
        "wrong_weights": sum(not torch.equal(w, m.bfloat16()) for w, m, _ in trained),
        "changed_without_gradient": sum(
            not (torch.equal(master, start) and torch.equal(weight, before))
            for (weight, master, start), before in zip(others, trial.idle_weights, strict=True)
        ),
        "too_much_at_once": int(working_bytes > MOST_AT_ONCE * FP32_BYTES * num_numbers),
    }


def _beside(explained_by: Callable[[Any], int], oracle: Any) -> int:
    """Masters that a wrong oracle explains; none where the right one does too."""
    return explained_by(oracle) if not explained_by(_right) else 0


def _num_rounded(trained: Sequence[tuple[Tensor, Tensor, Tensor]]) -> int:
    """Masters that moved, and that bf16 could hold."""
    trained = [each for each in trained if not torch.equal(each[1], each[2])]
    return sum(torch.equal(master, master.bfloat16().float()) for _, master, _ in trained)


def wanted(**case: Any) -> Numbers:
    """Nothing amiss: the observation of nothing wrong."""
    trial = _Trial(*case.values())
    return dict.fromkeys(_observed(trial, 0, case["num_numbers"]), 0)


def _for_all(*names: str) -> Callable[..., Numbers]:
    """So many for each weight that has a gradient."""

    def formula(scenario: str, num_weights: int, *rest: Any) -> Numbers:
        return dict.fromkeys(names, num_weights - (scenario == "one without gradient"))

    return formula


def _stopped_at_the_idle(
    scenario: str, num_weights: int, _: int, num_steps: int, *rest: Any
) -> Numbers:
    """Everything behind the weight without a gradient is left as it was."""
    idle = idle_place(scenario, num_weights, num_steps)
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
            _stopped_at_the_idle,
        ),
        Mistake(
            "Gradients are still there after your step, and the next backward pass adds to them. "
            "What has a gradient to be set to, so that its memory is freed?",
            _for_all("gradients_left"),
        ),
        Mistake(
            "Your weights are in fp32 now. Which operation copies numbers into a tensor that is "
            "there, and rounds them to its precision?",
            _for_all("weights_in_fp32"),
        ),
        Mistake(
            "The numbers stand in new memory. Who else may hold the old tensors, and which "
            "operation writes into those?",
            _for_all("moved"),
        ),
        Mistake(
            "Your masters are as they were before the first step. Which tensor does your line "
            "change, or does it only give a name to a new one?",
            _for_all("masters_as_before", "wrong_masters"),
        ),
        Mistake(
            "Your masters hold numbers of 8 bits, as bf16 does. Which of the two is updated, and "
            "which one is made from the other?",
            _for_all("masters_with_eight_bits", "wrong_masters"),
        ),
        Mistake(
            "Your masters begin every step at the rounded weights, so that a small update is lost "
            "after all. What has to live on from one step to the next?",
            _for_all("masters_from_weights", "wrong_masters"),
        ),
        Mistake(
            "Your masters are a little off, as if each update had 8 bits. In which precision is a "
            "gradient when it meets the learning rate?",
            _for_all("masters_by_rounded_product", "wrong_masters"),
        ),
        Mistake(
            "Your masters go up where the loss goes up. Which sign has a step of SGD?",
            _for_all("masters_upwards", "wrong_masters"),
        ),
        Mistake(
            "Your masters are right, and the weights do not follow. Does your line write into the "
            "weight, or give its name to something new?",
            _for_all("wrong_weights"),
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
