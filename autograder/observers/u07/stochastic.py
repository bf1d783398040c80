"""What is observed of rounding by chance: the results for one number, for every random number."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import errors_as_data, require_tensor

NUM_CHANCES = 2**16
SHAPE = (4, NUM_CHANCES // 4)


def all_chances(x: float) -> tuple[Tensor, Tensor]:
    """``x`` once for every random number, and these."""
    return torch.full(SHAPE, x), torch.arange(NUM_CHANCES, dtype=torch.int32).view(SHAPE)


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """All results, those of one random number for all, and the arguments afterwards."""
    x, random = all_chances(case["x"])
    results = require_tensor(answer(x, random))
    if results.shape != SHAPE and results.numel() != 2 * NUM_CHANCES:
        raise WrongForm(f"a tensor of the shape of x, {SHAPE}", f"one of {tuple(results.shape)}")
    of_one = answer(torch.full(SHAPE, case["x"]), torch.full_like(random, NUM_CHANCES // 2))
    return {"results": results, "of_one": require_tensor(of_one), "x": x, "random": random}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Flaws; mean, smallest and largest result, whose sum is exact in float64."""
    results, arguments = observed["results"], all_chances(case["x"])
    afterwards = (observed["x"], observed["random"])
    is_twice = results.numel() != NUM_CHANCES
    exact = torch.zeros(SHAPE, dtype=torch.float64) if is_twice else results.double()
    return [
        Fact(
            "twice",
            int(is_twice),
            "There are twice as many numbers as in x.",
            "Print shape and type of every tensor on the way to your result. Which line doubles "
            "the number of elements?",
        ),
        Fact(
            "not_from_random",
            int(len(observed["of_one"].float().view(torch.int32).unique()) > 1),
            "Equal random numbers give different results.",
            "On what does a result depend besides its own number in `x` and its own in `random`: "
            "another generator, its place in the tensor, an earlier call?",
        ),
        Fact(
            "not_bf16",
            int(not is_twice and results.dtype != torch.bfloat16),
            "The results are not in bf16.",
            "Which type does your last operation give, and which one does the exercise ask for?",
        ),
        Fact(
            "changed",
            int(not all(map(torch.equal, afterwards, arguments))),
            "x or random has changed.",
            "Which of your operations works in place, and does the tensor that it writes into "
            "share memory with `x` or with `random`?",
        ),
        Fact(
            "mean",
            exact.mean().item(),
            "the mean",
            "The mean is off. How many of the 65,536 random numbers should lead to the upper "
            "neighbor, and how many do in your function?",
        ),
        Fact(
            "smallest",
            exact.min().item(),
            "the smallest result",
            "The lower neighbor is wrong. Which bits of x does bf16 keep?",
        ),
        Fact(
            "largest",
            exact.max().item(),
            "the largest result",
            "The upper neighbor is wrong. What has to be added to the bits that bf16 keeps?",
        ),
    ]
