"""Check of the lecture's running mean: how much does one token of each sequence count?"""

import random

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.precision import tolerance
from autograder.exercises.model_answers import Edit, edited
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


STEPS, WEIGHT = "-(-len(lengths) // micro_batch_size)", "1 / (num_micro_batches * sum(group)) for _"
UNEVEN = (
    "Right only where the micro-batches come out even. How many of them are there when the last "
    "one is smaller?"
)
# What people give each token, with the length of its sequence.
OTHER_WEIGHTS = {
    "1 / sum(lengths)": (
        "Every token counts the same in your answer, as it should in training. Does it in the "
        "lecture's rule, where a micro-batch takes its own mean first?"
    ),
    "1 / (num_micro_batches * sum(lengths))": (
        "You divide by the tokens of all micro-batches, and by the number of these as well. Which "
        "tokens does the mean of one micro-batch cover?"
    ),
    "1 / (len(lengths) * length)": (
        "You take a mean for each sequence, and the rule takes one for each micro-batch. Over how "
        "many tokens does the mean of its micro-batch go?"
    ),
    "1 / (num_micro_batches * length)": (
        "Your tokens are those of one sequence, your steps those of all micro-batches. Over which "
        "tokens does the mean of a micro-batch go?"
    ),
    "1 / (num_micro_batches * len(group) * length)": (
        "You take the mean of each sequence, and of these the mean of the micro-batch. The rule "
        "takes a single mean in a micro-batch: over what?"
    ),
    "length / (num_micro_batches * sum(group))": (
        "This is what a whole sequence counts. How many tokens share it?"
    ),
    "1 / sum(group)": (
        "The mean within a micro-batch is right. By what does the rule divide each of them before "
        "it adds them up?"
    ),
    "1 / (micro_batch_size * sum(group))": (
        "You divide by the sequences of a micro-batch where the rule has its steps. How many times "
        "does the lecture's loop run?"
    ),
    "len(group) / (len(lengths) * sum(group))": (
        "You weigh the mean of a micro-batch by its sequences. Does the rule of the lecture ask "
        "how many there are in it?"
    ),
    "1 / num_micro_batches": ("This is what a whole micro-batch counts. How many tokens share it?"),
    "1 / (num_micro_batches * max(group) * len(group))": (
        "Your micro-batch has as many tokens as if all its sequences were as long as the longest. "
        "Which tokens have no loss?"
    ),
    "1 / (num_micro_batches * max(lengths) * len(group))": (
        "You fill all sequences up to the longest of the batch. Which tokens have no loss?"
    ),
    "1 / (num_micro_batches * len(group))": (
        "What you give each token is right for a mean over sequences. What does the mean of a "
        "micro-batch count, its sequences or its tokens?"
    ),
}
EDITS = (
    *(Edit(hint, {WEIGHT: f"{weight} for length"}) for weight, hint in OTHER_WEIGHTS.items()),
    *(
        Edit(UNEVEN, {STEPS: steps})
        for steps in (
            "max(1, len(lengths) // micro_batch_size)",
            "max(1, round(len(lengths) / micro_batch_size))",
            "len(lengths) / micro_batch_size",
            "len(lengths) // micro_batch_size + 1",
        )
    ),
    Edit(
        "You deal the sequences out, one to each micro-batch in turn. In which order does the rule "
        "take them?",
        {
            "range(0, len(lengths), micro_batch_size)": "range(len(lengths))",
            "start : start + micro_batch_size": "start % num_micro_batches :: num_micro_batches",
            "_ in group": "_ in range(1)",
        },
    ),
)

CHECK = Check(
    cases=weight_cases,
    observe=mean_of_means.observe,
    judge=Behaviour(
        measured,
        *edited("u08-mean-of-means", EDITS, observe=mean_of_means.observe),
        summarise=mean_of_means.summarise,
        labels={
            f"sequence_{number}": f"a token of sequence {number}"
            for number in range(1, MOST_SEQUENCES + 1)
        },
        relative_tolerance=tolerance(cancelled=4),
    ),
    fallback="course_utils.formulas.batch_size.token_weights",
)
