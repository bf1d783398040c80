"""Pictures of a trace show the peak where it is, and the caption names it."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from course_utils.configs import RunConfig, precision, preset
from course_utils.instruments import MemoryTrace, fake_tensors, trace_memory
from course_utils.quantities import format_bytes
from course_utils.reference import Training
from course_utils.show import births_and_deaths, memory_timeline, memory_timelines
from course_utils.show.memory_over_time import MAX_COLUMNS
from tests.course_utils.show.texts import overlapping_texts
from tests.random_models import random_model


@pytest.fixture(scope="module")
def llama() -> MemoryTrace:
    run = RunConfig(seq_len=4096, precision=precision("fp32"), is_loss_fp32=True)
    with fake_tensors():
        training = Training(preset("Llama-3.2-1B"), run)
        return trace_memory(training.step, *training.owners, num_steps=2)


@pytest.fixture(scope="module")
def small() -> MemoryTrace:
    run = RunConfig(seq_len=8, precision=precision("fp32"))
    training = Training(random_model("grouped", 1), run)
    return trace_memory(training.step, *training.owners)


def test_timeline_says_where_the_peak_is_and_what_is_live(llama):
    assert memory_timeline(llama).caption == (
        "Peak of 31.00 GiB in the backward pass of step 2: parameters 4.60 GiB, optimizer states "
        "9.21 GiB, activations 13.28 GiB, temporaries 3.91 GiB; beside the parameters the largest "
        "tensor has shape (4096, 128256) and 1.96 GiB, made by _log_softmax."
    )


def test_timeline_draws_the_peak_among_many_operations(llama, small):
    for trace in (llama, small):
        ax = memory_timeline(trace).figure.axes[0]
        highest = max(area.get_path().get_extents().y1 for area in ax.patches)
        (marker,) = (line for line in ax.lines if line.get_marker() == "v")
        assert marker.get_ydata()[0] == pytest.approx(highest)  # the same division of whole numbers
        assert marker.get_xdata()[0] == trace.peak_at
    assert llama.num_operations > 10 * MAX_COLUMNS


# By hand, for the first step of 1.236 billion parameters at 4,096 tokens: weights, what the forward
# pass keeps, and twice the logits in fp32; 4.60 + 13.28 + 3.91 GiB.
def test_one_step_alone(llama):
    picture = memory_timeline(llama, step=1)
    assert picture.caption.startswith(
        "Peak of 21.80 GiB in the backward pass of step 1: parameters 4.60 GiB, activations"
    )
    ax = picture.figure.axes[0]
    assert ax.get_xlim() == (1, llama.phases[2].stop - 1)
    named = [text.get_text() for text in ax.texts]
    assert named == ["21.80 GiB", "forward pass", "backward pass", "optimizer's step"]
    with pytest.raises(ValueError, match="the trace has no step 3: give one from 1 to 2"):
        memory_timeline(llama, step=3)


def test_the_passes_of_a_loop_may_have_names():
    layer = nn.Linear(3, 2)

    def loop():
        layer(torch.ones(4, 3)).sum().backward()
        return layer(torch.ones(400, 3)).sum()

    trace = trace_memory(loop, layer)
    picture = memory_timeline(trace, names=["the training", "the evaluation"])
    assert "in the forward pass of the evaluation:" in picture.caption
    named = [text.get_text() for text in picture.figure.axes[0].texts]
    assert named[1:] == ["the training", "the evaluation"]
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        memory_timeline(trace, names=["the training"])


def test_an_axis_may_have_room_for_the_peak_of_another_trace(llama):
    limits = [
        memory_timeline(llama, step, limit_bytes=llama.peak_bytes).figure.axes[0].get_ylim()
        for step in (None, 1, 2)
    ]
    assert len(set(limits)) == 1
    assert limits[0][1] > llama.peak_bytes / 2**30


def test_a_long_trace_is_still_drawn_as_svg(llama):
    for picture in (memory_timeline(llama), memory_timelines(dict.fromkeys("abc", llama))):
        assert "<svg" in picture._repr_html_()


def test_no_text_overlaps(llama, small):
    pictures = [memory_timeline(trace, step) for trace in (llama, small) for step in (None, 1)]
    pictures += [memory_timelines({"a": llama, "b": llama, "c": small})]
    pictures += [
        births_and_deaths(trace, has_temporaries=has_temporaries)
        for trace in (llama, small)
        for has_temporaries in (False, True)
    ]
    assert [overlapping_texts(picture.figure) for picture in pictures] == [[]] * len(pictures)


def test_several_traces_share_one_scale(llama, small):
    picture = memory_timelines({"large": llama, "small": small})
    assert picture.caption == (
        f"Peaks on one scale: {format_bytes(llama.peak_bytes)} in the backward pass of step 2 "
        f"(large); "
        f"{format_bytes(small.peak_bytes)} in the optimizer's step of step 1 (small)."
    )
    left, right = picture.figure.axes
    assert left.get_ylim() == right.get_ylim()
    assert left.get_ylim()[1] > 21.8
    assert [ax.get_title() for ax in (left, right)] == ["large", "small"]


def test_the_legend_names_categories_of_any_trace(llama):
    layer = nn.Linear(3, 2)
    bare = trace_memory(lambda: layer(torch.ones(4, 3)).sum().backward(), layer)
    for traces, has_states in (({"a": bare}, False), ({"a": bare, "b": llama}, True)):
        names = [each.get_text() for each in memory_timelines(traces).figure.legends[0].get_texts()]
        assert ("optimizer states" in names) is has_states
        assert "gradients" in names


def test_bars_are_as_thick_as_their_bytes_and_as_long_as_their_lifetimes(llama):
    picture = births_and_deaths(llama, step=2)
    kept = [each for each in llama.storages if each.category == "activations"]
    kept = [each for each in kept if each.born >= llama.phases[3].start and each.shape]
    ax = picture.figure.axes[0]
    boxes = [bar.get_paths()[0].get_extents() for bar in ax.collections]
    assert [(box.x0, box.x1) for box in boxes] == [(each.born, each.died) for each in kept]
    total = sum(each.storage_bytes for each in kept)
    assert boxes[-1].y1 == pytest.approx(total / 2**30)  # a sum of floats
    first, last = (each.died - each.born for each in (kept[0], kept[-1]))
    assert f"first lives for {first:,} operations and the last for {last:,}." in picture.caption
    assert f"Of {len(kept)} activations, {format_bytes(total)} together" in picture.caption


def test_temporaries_of_backward_are_drawn_after_activations(small):
    picture = births_and_deaths(small, has_temporaries=True)
    backward = next(phase for phase in small.phases if phase.name == "backward")
    made = [s for s in small.storages if s.category == "temporaries"]
    made = [s for s in made if backward.start <= s.born < backward.stop and s.shape]
    kept = [s for s in small.storages if s.category == "activations" and s.shape]
    boxes = [bar.get_paths()[0].get_extents() for bar in picture.figure.axes[0].collections]
    assert [box.x0 for box in boxes] == [each.born for each in (*kept, *made)]
    longest = max(each.died - each.born for each in made)
    assert picture.caption == births_and_deaths(small).caption.removesuffix(".") + (
        f"; none of {len(made)} temporaries lives for more than {longest}."
    )


def test_a_trace_without_activations_raises():
    trace = trace_memory(lambda: torch.ones(3) + 1)
    with pytest.raises(ValueError, match="step 1 of this trace keeps no activation"):
        births_and_deaths(trace)
    assert "Peak of 24 B at operation 2: temporaries 24 B;" in repr(memory_timeline(trace))
    assert "made by ones." in memory_timeline(trace).caption
    before = trace.storages[0]._replace(operation="", died=None)
    assert "from the beginning." in memory_timeline(replace(trace, storages=(before,))).caption
    parameter = replace(trace, storages=(before._replace(category="parameters"),))
    assert memory_timeline(parameter).caption.endswith("parameters 12 B.")


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(1, "1 B"), (512, "512 B"), (2**24, "16 MiB"), (2**41, "2 TiB")]
)
def test_bytes_as_read_without_digits(num_bytes, text):
    assert format_bytes(num_bytes, digits=0) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1536, "1.50 KiB"), (33_290_000_000, "31.00 GiB")],
)
def test_bytes_as_read(num_bytes, text):
    assert format_bytes(num_bytes) == text
