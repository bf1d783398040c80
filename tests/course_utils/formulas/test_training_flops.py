"""Training FLOPs of a token and their growth with the length, compared with what really runs."""

import pytest
import torch

from course_utils.configs import preset
from course_utils.formulas.training_flops import budget_ratio, training_flops_per_token
from course_utils.instruments import count_flops
from course_utils.reference import Transformer
from tests.random_models import KINDS, random_model


def counted(model, seq_len: int) -> int:
    built = Transformer(model, device="meta")
    return sum(count_flops(lambda: built(torch.zeros(1, seq_len, dtype=torch.long, device="meta"))))


@pytest.mark.parametrize("kind", KINDS)
def test_flops_of_a_token_are_those_that_run(kind):
    model = random_model(kind, 3)
    assert training_flops_per_token(model, 8) * 8 == counted(model, 8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("old", "new"), [(8, 24), (24, 8)])
def test_budget_ratio_is_that_of_the_counts(kind, old, new):
    model = random_model(kind, 3)
    ratio = counted(model, new) / counted(model, old)
    assert budget_ratio(model, old, new) == {
        "per_sequence": pytest.approx(ratio, rel=1e-12),
        "whole_budget": pytest.approx(ratio * old / new, rel=1e-12),
    }


def test_twice_the_length_costs_llama_3_2_1b_18_percent():
    """At 4,096 tokens the core is 1.61 of 9.03 GFLOPs; it is counted twice at 8,192."""
    of_model = budget_ratio(preset("Llama-3.2-1B"), 4096, 8192)
    assert of_model["whole_budget"] == (9_025_093_632 + 1_610_612_736) / 9_025_093_632
    assert of_model["per_sequence"] == 2 * of_model["whole_budget"]


def test_lengths_above_zero_are_wanted():
    with pytest.raises(ValueError, match="training_flops_per_token: seq_len must be above zero"):
        budget_ratio(preset("Llama-3.2-1B"), 0, 8)
