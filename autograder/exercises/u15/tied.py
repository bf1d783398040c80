"""Check of gradients that are summed once, however many layers share a weight."""

import random
from typing import Any

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import mistakes_of, questions_of
from autograder.exercises.u15.shared.gradients import LABELS, TRAINERS, on_every_rank
from autograder.observing.observation import length_of
from autograder.observing.u09.after_backward import frozen, gradients_of
from autograder.observing.u15 import tied

KINDS = ("two", "three", "bias", "layer", "equal", "frozen", "none")
NUM_CASES = 21


def tied_cases(seed: int) -> list[Case]:
    """A weight in two layers or three, a bias, a whole layer, nothing; on one rank to four."""
    rng = random.Random(seed)
    cases: list[Case] = [{"kind": "two", "num_ranks": 2, "width": 2}]
    for number in range(NUM_CASES):
        num_ranks = (2, 3, 4, 1)[number % 4]  # three of them for each kind
        kind, width = KINDS[number % len(KINDS)], rng.randint(2, 5)
        cases.append({"kind": kind, "num_ranks": num_ranks, "width": width})
    return cases


def measured(**case: Any) -> dict[str, Any]:
    """The gradient of the whole batch by one rank, and a call for each parameter."""
    ranks = range(case["num_ranks"])
    model = tied.model_of(case, 0)
    kept = [gradients_of(frozen(tied.model_of(case, rank))) for rank in ranks]
    for rank in ranks:
        tied.loss_of(model, case, rank).backward()
    sent = [each for each in model.parameters() if each.requires_grad]
    gradients = gradients_of(list(model.parameters()))
    trained = [
        gradient if parameter.requires_grad else None
        for gradient, parameter in zip(gradients, model.parameters(), strict=True)
    ]
    return on_every_rank(
        trained,
        [each.nbytes for each in sent],
        length=length_of(gradients),
        length_on_last=_length_on_last(case, model),
        changed_frozen=0,
        frozen=kept,
    )


def _length_on_last(case: Case, model: Any) -> float:
    """The length of the last rank's gradient: what a frozen bias has kept is its own."""
    trained = [each for each in model.parameters() if each.requires_grad]
    last = tied.model_of(case, case["num_ranks"] - 1)
    return length_of([*gradients_of(trained), *gradients_of(frozen(last))])


CHECK = Check(
    cases=tied_cases,
    observe=tied.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u15-tied", observe=tied.observe),
        summarise=tied.summarise,
        questions=questions_of("u15-tied"),
        labels=LABELS | {"changed_frozen": "frozen parameters whose grad has changed"},
    ),
    answers=TRAINERS,
)
