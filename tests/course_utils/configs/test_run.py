"""Precisions have the bytes of the lectures' tables; runs that make no sense are rejected."""

import pytest

from course_utils.configs import Kernels, Precision, RunConfig, precision

SIZES = {"activation_bytes": 2, "weight_bytes": 2, "gradient_bytes": 2, "moment_bytes": 8}


def test_sizes_of_a_precision_are_checked():
    assert Precision(**SIZES, master_weight_bytes=0).master_weight_bytes == 0
    with pytest.raises(ValueError, match="master_weight_bytes must be zero or above, got -4"):
        Precision(**SIZES, master_weight_bytes=-4)
    with pytest.raises(TypeError, match="master_weight_bytes must be a whole number, got"):
        Precision(**SIZES, master_weight_bytes=4.0)
    with pytest.raises(ValueError, match="gradient_bytes must be above zero, got 0"):
        Precision(**SIZES | {"gradient_bytes": 0}, master_weight_bytes=0)


def test_unknown_precisions_are_rejected():
    with pytest.raises(ValueError, match="no precision 'bf-16'; near it: bf16"):
        precision("bf-16")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seq_len": 0}, "seq_len must be above zero, got 0"),
        ({"seq_len": 8, "micro_batch_size": -1}, "micro_batch_size must be above zero, got -1"),
    ],
)
def test_runs_that_make_no_sense_are_rejected(change, words):
    with pytest.raises(ValueError, match=words):
        RunConfig(**change)


def test_kernels_that_do_not_exist_are_rejected():
    with pytest.raises(ValueError, match="fused attention has no dropout on a CPU"):
        Kernels(dropout_fraction=0.1)
    for fraction in (-0.1, 1.0):
        with pytest.raises(ValueError, match="at least 0 and below 1"):
            Kernels(is_attention_fused=False, dropout_fraction=fraction)
