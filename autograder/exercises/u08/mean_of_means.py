"""Check of the lecture's running mean: how much does one token of each sequence count?"""

import random
from collections.abc import Callable
from typing import Any

import torch

from autograder.checking import plain_data
from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour, Mistake
from autograder.exercises.observing import errors_as_data
from course_utils.formulas.batch_size import token_weights

# Quotients of small integers: a division or two rounds each.
ROUNDING = 1e-12

Lengths = list[int]
Weights = dict[str, float]


def _groups(lengths: Lengths, size: int) -> list[Lengths]:
    return [lengths[start : start + size] for start in range(0, len(lengths), size)]


def weight_cases(seed: int) -> list[Case]:
    """Ragged and equal lengths; micro-batches of one, of all, and a smaller last one."""
    rng = random.Random(seed)
    cases = [_case([3, 1, 2], 2), _case([32, 2, 30, 4, 28, 3, 31, 5], 2)]
    for num_sequences, size in ((6, 2), (7, 3), (5, 1), (9, 4), (6, 3), (8, 3)):
        for _ in range(2):
            cases.append(_case(rng.sample(range(1, 30), num_sequences), size))
    for num_sequences, size in ((4, 4), (6, 2), (7, 2), (5, 5)):
        cases.append(_case([rng.randint(2, 20)] * num_sequences, size))
    for num_sequences, size in ((4, 4), (5, 7)):
        cases.append(_case(rng.sample(range(1, 30), num_sequences), size))
    return cases


def _case(lengths: Lengths, micro_batch_size: int) -> Case:
    return {"lengths": lengths, "micro_batch_size": micro_batch_size}


@errors_as_data
def observe(answer: Any, case: Case) -> object:
    """The returned numbers, each under the name of its sequence."""
    got = answer(*case.values())
    if type(got) is not list:
        raise TypeError(
            f"wanted a list of one number for each sequence, got {plain_data.describe(got)}"
        )
    num_sequences = len(case["lengths"])
    if len(got) != num_sequences:
        raise ValueError(
            f"wanted a list of one number for each sequence, {num_sequences}, got {len(got)}"
        )
    return _by_sequence(got)


def _by_sequence(weights: list[float]) -> Weights:
    return {f"sequence {number}": weight for number, weight in enumerate(weights, 1)}


def measured(lengths: Lengths, micro_batch_size: int) -> Weights:
    """Derivatives of the running mean with respect to the loss of each sequence's first token."""
    losses = [torch.ones(length, dtype=torch.float64, requires_grad=True) for length in lengths]
    starts = range(0, len(losses), micro_batch_size)
    mean = torch.zeros((), dtype=torch.float64)
    for start in starts:
        mean = mean + torch.cat(losses[start : start + micro_batch_size]).mean() / len(starts)
    mean.backward()
    return _by_sequence([each.grad[0].item() for each in losses if each.grad is not None])


def _of_groups(
    weight: Callable[[Lengths, int, int], float],
) -> Callable[[Lengths, int], Weights]:
    """A wrong weight, from a micro-batch, the number of micro-batches and their size."""

    def formula(lengths: Lengths, micro_batch_size: int) -> Weights:
        groups = _groups(lengths, micro_batch_size)
        weights = [weight(group, len(groups), micro_batch_size) for group in groups for _ in group]
        return _by_sequence(weights)

    return formula


def _of_sequences(
    weight: Callable[[int, Lengths, int], float],
) -> Callable[[Lengths, int], Weights]:
    """A wrong weight, from a sequence, its micro-batch and the number of micro-batches."""

    def formula(lengths: Lengths, micro_batch_size: int) -> Weights:
        groups = _groups(lengths, micro_batch_size)
        return _by_sequence(
            [weight(length, group, len(groups)) for group in groups for length in group]
        )

    return formula


def _padded(lengths: Lengths, micro_batch_size: int) -> Weights:
    longest = max(lengths)
    return _of_groups(lambda group, steps, b: 1 / (longest * len(group) * steps))(
        lengths, micro_batch_size
    )


def _steps_rounded_down(lengths: Lengths, micro_batch_size: int) -> Weights:
    num_steps = max(1, len(lengths) // micro_batch_size)
    return _of_groups(lambda group, *_: 1 / (sum(group) * num_steps))(lengths, micro_batch_size)


CHECK = Check(
    cases=weight_cases,
    reference=token_weights,
    observe=observe,
    judge=Behaviour(
        measured,
        Mistake(
            "Every token counts the same in your answer, as it should in training. Does it in the "
            "lecture's rule, where a micro-batch takes its own mean first?",
            lambda lengths, b: _by_sequence([1 / sum(lengths)] * len(lengths)),
        ),
        Mistake(
            "Right only where the micro-batches come out even. How many of them are there when "
            "the last one is smaller?",
            _steps_rounded_down,
        ),
        Mistake(
            "You take a mean for each sequence, and the rule takes one for each micro-batch. "
            "Among the tokens of which sequences is a token one of many?",
            lambda lengths, b: _by_sequence([1 / (len(lengths) * each) for each in lengths]),
        ),
        Mistake(
            "Your tokens are those of one sequence, your steps those of all micro-batches. Over "
            "which tokens does the mean of a micro-batch go?",
            lambda lengths, b: _by_sequence(
                [1 / (each * -(-len(lengths) // b)) for each in lengths]
            ),
        ),
        Mistake(
            "You take the mean of each sequence, and of these the mean of the micro-batch. The "
            "rule takes one mean of a micro-batch: over what?",
            _of_sequences(lambda length, group, steps: 1 / (length * len(group) * steps)),
        ),
        Mistake(
            "This is what a whole sequence counts. How many tokens share it?",
            _of_sequences(lambda length, group, steps: length / (sum(group) * steps)),
        ),
        Mistake(
            "The mean within a micro-batch is right. By what does the rule divide each of them "
            "before it adds them up?",
            _of_groups(lambda group, steps, b: 1 / sum(group)),
        ),
        Mistake(
            "You divide by the sequences of a micro-batch where the rule has its steps. How often "
            "does the loop of the lecture go round?",
            _of_groups(lambda group, steps, b: 1 / (sum(group) * b)),
        ),
        Mistake(
            "This is what a whole micro-batch counts. How many tokens share it?",
            _of_groups(lambda group, steps, b: 1 / steps),
        ),
        Mistake(
            "Your micro-batch has as many tokens as if all its sequences were as long as the "
            "longest. Which tokens have no loss?",
            _of_groups(lambda group, steps, b: 1 / (max(group) * len(group) * steps)),
        ),
        Mistake(
            "You fill all sequences up to the longest of the batch. Which tokens have no loss?",
            _padded,
        ),
        Mistake(
            "What you give each token is right for a mean over sequences. What does the mean of a "
            "micro-batch count, its sequences or its tokens?",
            _of_groups(lambda group, steps, b: 1 / (len(group) * steps)),
        ),
        relative_tolerance=ROUNDING,
    ),
)
