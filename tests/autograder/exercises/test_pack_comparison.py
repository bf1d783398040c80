"""What two machines record differs in last digits; all else is a difference, and is named."""

import math

import pytest
import torch

from autograder.exercises.pack_comparison import difference

THIRD = torch.tensor([1 / 3, 1e-20, -math.inf], dtype=torch.float64)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": [1, (2.0, "x")], "b": None}, {"a": [1, (2.0, "x")], "b": None}),
        (1 / 3, 1 / 3 + 1e-16),
        (math.nan, math.nan),
        (math.inf, math.inf),
        (THIRD, THIRD + 1e-16),
        (THIRD.float(), THIRD.float() * (1 + 2**-22)),
        (torch.tensor([1, 2]), torch.tensor([1, 2])),
        (torch.tensor([]), torch.tensor([])),
        (
            {"mistakes": [{"numbers": {"sum": [7.0, 1e-15, None]}}]},
            {"mistakes": [{"numbers": {"sum": [7.0, 2e-15, None]}}]},
        ),
    ],
)
def test_the_same(one, other):
    assert difference(one, other) == ""


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ({"a": [1, 2]}, {"a": [1, 3]}, "a.1: 2 became 3"),
        ({"a": 1}, {"a": 1.0}, "a: int became float"),
        ([1 / 3], [1 / 3 + 1e-8], f"0: {1 / 3} became {1 / 3 + 1e-8}"),
        ([1.0], [math.nan], "0: 1.0 became nan"),
        (2**60, 2**60 + 1, f": {2**60} became {2**60 + 1}"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, ": 2 items became 2, or have other names"),
        ([1], [1, 2], ": 1 items became 2, or have other names"),
        ([1], (1,), ": list became tuple"),
        (
            {"mistakes": [{"numbers": {"sum": [7.0, 1e-3]}}]},
            {"mistakes": [{"numbers": {"sum": [7.0, 2e-3]}}]},
            "mistakes.0.numbers.sum.1: 0.001 became 0.002",
        ),
        (
            {"mistakes": [{"numbers": {"sum": [1e-15]}}]},
            {"mistakes": [{"numbers": {"sum": [2e-15]}}]},
            "mistakes.0.numbers.sum.0: 1e-15 became 2e-15",
        ),
        ({"right": [7.0, 1e-15]}, {"right": [7.0, 2e-15]}, "right.1: 1e-15 became 2e-15"),
        ([THIRD], [THIRD + 1e-8], "0: another tensor"),
        ([THIRD], [THIRD.float()], "0: another tensor"),
        ([THIRD], [THIRD[:2]], "0: another tensor"),
        ([torch.tensor([1.0])], [torch.tensor([math.nan])], "0: another tensor"),
        ([torch.tensor([1])], [torch.tensor([2])], "0: another tensor"),
    ],
)
def test_a_difference_and_its_place(one, other, said):
    assert difference(one, other) == said
