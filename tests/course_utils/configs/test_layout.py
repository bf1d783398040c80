"""The devices of a layout are the product of its degrees; bad degrees are rejected."""

import pytest

from course_utils.configs import ParallelLayout
from course_utils.configs.layout import num_devices


def test_one_device_by_default():
    assert num_devices(ParallelLayout()) == 1


def test_devices_are_the_product_of_the_degrees():
    layout = ParallelLayout(
        data_parallel_size=5,
        tensor_parallel_size=2,
        pipeline_parallel_size=3,
        context_parallel_size=7,
    )
    assert num_devices(layout) == 210


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-2, ValueError), (2.0, TypeError)])
def test_degrees_that_make_no_sense_are_rejected(size, error):
    with pytest.raises(error, match="ParallelLayout: data_parallel_size must be"):
        ParallelLayout(data_parallel_size=size)
