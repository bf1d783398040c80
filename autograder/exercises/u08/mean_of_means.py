"""Check of the lecture's running mean: how much does one token of each sequence count?"""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.precision import tolerance
from autograder.exercises.model_answers import mistakes_of
from autograder.observing.u08 import mean_of_means

# Quotients of small integers: a division or two rounds each.
MOST_SEQUENCES = 9


def weight_cases(seed: int) -> list[Case]:
    """Ragged and equal lengths; micro-batches of one, of all, and a smaller last one."""
    rng = random.Random(seed)
    pairs = [[rng.randint(26, 32), rng.randint(2, 5)] for _ in range(4)]
    cases = [_case([3, 1, 2], 2), _case([length for pair in pairs for length in pair], 2)]
    for num_sequences, size in ((6, 2), (7, 3), (5, 1), (9, 4), (6, 3), (8, 3)):
        for _ in range(2):
            cases.append(_case(rng.sample(range(1, 30), num_sequences), size))
    for num_sequences, size in ((4, 4), (6, 2), (7, 2), (5, 5)):
        cases.append(_case([rng.randint(2, 20)] * num_sequences, size))
    for num_sequences, size in ((4, 4), (5, 7)):
        cases.append(_case(rng.sample(range(1, 30), num_sequences), size))
    return cases


def _case(lengths: list[int], micro_batch_size: int) -> Case:
    return {"lengths": lengths, "micro_batch_size": micro_batch_size}


def measured(lengths: list[int], micro_batch_size: int) -> dict[str, float]:
    """Derivatives of the running mean with respect to the loss of each sequence's first token."""
    losses = [torch.ones(length, dtype=torch.float64, requires_grad=True) for length in lengths]
    starts = range(0, len(losses), micro_batch_size)
    mean = torch.zeros((), dtype=torch.float64)
    for start in starts:
        mean = mean + torch.cat(losses[start : start + micro_batch_size]).mean() / len(starts)
    gradients = torch.autograd.grad(mean, losses)
    return {f"sequence_{number}": each[0].item() for number, each in enumerate(gradients, 1)}


CHECK = Check(
    cases=weight_cases,
    observe=mean_of_means.observe,
    judge=Behaviour(
        measured,
        *mistakes_of("u08-mean-of-means", observe=mean_of_means.observe),
        summarise=mean_of_means.summarise,
        labels={
            f"sequence_{number}": f"a token of sequence {number}"
            for number in range(1, MOST_SEQUENCES + 1)
        },
        relative_tolerance=tolerance(cancelled=4),
    ),
    fallback="course_utils.formulas.batch_size.token_weights",
)
