"""What is observed of rounding by chance: the results for one number, for every random number."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain
from autograder.observing.observation import errors_as_data, require_tensor

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
        shape = tuple(results.shape)
        raise TypeError(f"wanted a tensor of the shape of x, {SHAPE}, got {shape}")
    of_one = answer(torch.full(SHAPE, case["x"]), torch.full_like(random, NUM_CHANCES // 2))
    return {"results": results, "of_one": require_tensor(of_one), "x": x, "random": random}


def summarise(case: Case, observed: Plain, right: Plain) -> Plain:
    """Flaws; mean, smallest and largest result, whose sum is exact in float64."""
    results, arguments = observed["results"], all_chances(case["x"])
    afterwards = (observed["x"], observed["random"])
    is_twice = results.numel() != NUM_CHANCES
    exact = torch.zeros(SHAPE, dtype=torch.float64) if is_twice else results.double()
    return {
        "twice": int(is_twice),
        "not_from_random": int(len(observed["of_one"].float().view(torch.int32).unique()) > 1),
        "not_bf16": int(not is_twice and results.dtype != torch.bfloat16),
        "changed": int(not all(map(torch.equal, afterwards, arguments))),
        "mean": exact.mean().item(),
        "smallest": exact.min().item(),
        "largest": exact.max().item(),
    }
