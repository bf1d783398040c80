"""Live tensors over a step, for a chain whose bytes can be counted by hand."""

import pytest
import torch
from torch import nn

from course_utils.instruments import trace_memory
from course_utils.reference.recomputation import in_segments
from course_utils.show import live_tensors
from tests.course_utils.show.texts import overlapping_texts

U = 4 * 2**12 * 2  # 4,096 rows of 2 numbers in fp32


def step_of(layers_per_segment):
    """Four layers of a matrix and tanh: each keeps the matrix's input and the result of tanh."""
    layers = [nn.Sequential(nn.Linear(2, 2, bias=False), nn.Tanh()) for _ in range(4)]
    chain = in_segments(layers, layers_per_segment) if layers_per_segment else layers
    x = torch.ones(2**12, 2)

    def step():
        y = x.clone()
        for each in chain:
            y = each(y)
        y.sum().backward()

    return trace_memory(step, *layers)


# Without recomputation the input and four results of tanh; one layer's result is the next layer's
# input. With segments one input each, and the last result, which the variable `y` holds.
@pytest.mark.parametrize(("layers_per_segment", "kept"), [(0, 5), (1, 5), (2, 3), (4, 2)])
def test_what_the_forward_pass_keeps(layers_per_segment, kept):
    # plus two scalars of 4 bytes, the sum and its gradient
    assert step_of(layers_per_segment).kept_bytes == kept * U + 8


def test_caption_has_the_numbers_that_are_drawn():
    traces = {"none": step_of(0), "one segment": step_of(4)}
    picture = live_tensors(traces, U)
    peaks = [max(trace.working_bytes) / U for trace in traces.values()]
    ax = picture.figure.axes[0]
    markers = [line.get_ydata()[0] for line in ax.lines if line.get_marker() == "v"]
    assert markers == peaks
    for name, peak in zip(traces, peaks, strict=True):
        assert f"{peak:,.0f} ({name})" in picture.caption
    assert overlapping_texts(picture.figure) == []


def test_too_many_traces_raise():
    traces = dict.fromkeys("abcde", step_of(0))
    with pytest.raises(ValueError, match="at most 4 traces, got 5"):
        live_tensors(traces, U)
