"""Pictures of serving: where memory ends, who holds a block, what is accepted."""

import pytest

from course_utils import colours
from course_utils.configs import device
from course_utils.formulas.serving import served_bytes
from course_utils.show import designs_of_llama, draft_overlap, paged_blocks, rates_over_batch


def test_lines_end_where_memory_ends():
    picture = rates_over_batch(context=8192, hardware="H100-SXM")
    solid = [line for line in picture.figure.axes[0].lines if line.get_linestyle() == "-"]
    memory = device("H100-SXM").memory_bytes
    for line, model in zip(solid, designs_of_llama().values(), strict=True):
        last = int(line.get_xdata()[-1])
        assert served_bytes(model, last, 8192) <= memory < served_bytes(model, 2 * last, 8192)
    assert "8, 32, 256, 128" in picture.caption


def test_a_model_that_does_not_fit_has_no_solid_line():
    picture = rates_over_batch(context=2**20, hardware="A100-40")
    assert "0, 0" in picture.caption


def test_shared_blocks_are_split_among_their_owners():
    picture = paged_blocks([{"a": 4, "b": 4}, {"a": 1}, {}], ["a", "b"], 4)
    assert picture.caption == "2 of 3 blocks are in use, 1 of them by several sequences."
    filled = [p for p in picture.figure.axes[0].patches if p.get_facecolor()[3] == 1.0]
    assert len(filled) == 4 + 4 + 1 + 2  # and two in the legend


@pytest.mark.parametrize(
    ("likeness", "accepted"), [("0 %", "0.45"), ("80 %", "0.89"), ("95 %", "0.97")]
)
def test_the_overlap_is_what_is_accepted(likeness, accepted):
    picture = draft_overlap(likeness, 4)
    assert f"overlap in {accepted}" in picture.caption
    heights = [bar.get_height() for bar in picture.figure.axes[1].patches]
    assert heights == pytest.approx([float(accepted) ** n for n in (1, 2, 3, 4)], abs=0.02)
    assert colours.PARAMETERS in picture.svg()
