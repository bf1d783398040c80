"""Pictures of recomputation say what is saved and what it costs."""

import pytest

from course_utils.show import memory_against_flops, recomputation_over_length
from tests.course_utils.show.texts import overlapping_texts

POINTS = {"none": (6 * 2**30, 0.0), "products": (3 * 2**29, 0.0), "full": (2**28, 1 / 3)}


def test_every_policy_is_a_point_with_its_name():
    picture = memory_against_flops(POINTS)
    ax = picture.figure.axes[0]
    drawn = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines]
    assert drawn == [(fraction, kept / 2**30) for kept, fraction in POINTS.values()]
    assert [text.get_text() for text in ax.texts] == list(POINTS)
    assert picture.caption == (
        "The fewer bytes are kept, the more runs again: 6.00 GiB for +0.0% (none) and 256.00 MiB "
        "for +33.3% (full)."
    )


# GPT-3 at 2,048 tokens: 5 a s / h = 80 of 34 + 80 (and statistics), for 4 s / (72 h + 12 s).
# At 1,024: 40 of 34 + 40, for 4096 / (884,736 + 12,288) = 0.46 %.
def test_selective_recomputation_of_gpt_3():
    picture = recomputation_over_length(
        "GPT-3-175B",
        attention="written out, dropout",
        recomputation="selective",
        lengths=(1024, 2048),
    )
    assert "70.2% less, for +0.9% of the layers' FLOPs." in picture.caption
    without, selective = picture.figure.axes[0].lines
    ratio = selective.get_ydata()[1] / without.get_ydata()[1]
    assert ratio == pytest.approx(1 - 0.702, abs=5e-4)  # the caption has three digits
    assert without.get_color() != selective.get_color()
    labels = picture.figure.axes[0].get_legend().get_texts()
    assert [text.get_text() for text in labels] == ["no recomputation", "selective"]
    assert picture.figure.axes[0].texts[0].get_text() == "+0.5%"


def test_the_axis_stands_still_for_every_model():
    limits = {
        recomputation_over_length(model, attention=kind, recomputation="full")
        .figure.axes[0]
        .get_ylim()
        for model in ("GPT-2-124M", "Llama-3-405B")
        for kind in ("fused", "written out, dropout")
    }
    assert len(limits) == 1


def test_without_recomputation_there_is_one_line():
    ax = recomputation_over_length("Llama-3-8B", attention="fused", recomputation="none").figure
    assert len(ax.axes[0].lines) == 1


@pytest.mark.parametrize("model", ["GPT-2-124M", "Llama-3.2-1B", "Llama-3-405B"])
@pytest.mark.parametrize("recomputation", ["none", "selective", "full"])
def test_no_text_overlaps(model, recomputation):
    for attention in ("fused", "written out"):
        choice = {"attention": attention, "recomputation": recomputation}
        assert overlapping_texts(recomputation_over_length(model, **choice).figure) == []
    assert overlapping_texts(memory_against_flops(POINTS).figure) == []
