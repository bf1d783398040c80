"""Pictures of attention in tiles: what a program did, and what blocks take and move."""

import pytest
import torch

from course_utils import colours
from course_utils.instruments import TwoLevelMemory
from course_utils.reference.tiled_attention import flash_forward, flash_forward_keys_outer
from course_utils.show import blocks_and_traffic, tile_walk
from tests.course_utils.show.texts import overlapping_texts


def walked(program, capacity=None):
    """Four queries and six keys of two numbers, in tiles of 2 x 2."""
    machine = TwoLevelMemory(capacity)
    shapes = {"q": (4, 2), "k": (6, 2), "v": (6, 2), "out": (4, 2), "lse": (4,)}
    tensors = {name: torch.ones(shape, dtype=torch.float64) for name, shape in shapes.items()}
    program(machine, [machine.slow(t, name) for name, t in tensors.items()], 2, 2)
    return machine


def tiles(picture):
    """Lower corners (key, query) of the tiles of scores that are drawn."""
    patches = picture.figure.axes[0].patches
    return [(p.get_x(), p.get_y()) for p in patches if p.get_alpha() == 0.6]


# With queries outside: q, then k and v three times, then out and lse.
@pytest.mark.parametrize(
    ("step", "wanted"),
    [(1, []), (2, [(0, 0)]), (4, [(0, 0), (2, 0)]), (9, [(0, 0), (2, 0), (4, 0)])],
)
def test_tiles_with_queries_outside(step, wanted):
    picture = tile_walk(walked(flash_forward), step)
    assert tiles(picture) == wanted
    assert f"Tiles of scores begun: {len(wanted)}, none of them stored" in picture.caption


def test_tiles_with_keys_outside():
    """k, v, then for each tile of queries q, out and lse."""
    machine = walked(flash_forward_keys_outer)
    assert tiles(tile_walk(machine, 3)) == [(0, 0)]
    assert tiles(tile_walk(machine, 6)) == [(0, 0), (0, 2)]


def test_caption_and_numbers_of_a_step():
    picture = tile_walk(walked(flash_forward, capacity=60), 3)
    assert picture.caption.startswith("Move 3: loaded v, rows 0 to 1. Tiles of scores begun: 1")
    texts = [text.get_text() for text in picture.figure.axes[1].texts]
    assert "loaded 12 of 56" in texts
    assert "stored 0 of 12" in texts
    assert "60 fit" in texts
    assert not overlapping_texts(picture.figure)


def test_the_last_step_has_stored_everything():
    machine = walked(flash_forward)
    picture = tile_walk(machine, len(machine.moves))
    assert len(tiles(picture)) == 6
    with pytest.raises(ValueError, match="wants a step from 1 to 18, got 19"):
        tile_walk(machine, 19)


# 2 bytes of 2 * 128 * 128 + 2 * 64 * 128 + 128 * 64 + 3 * 128 numbers: 112.75 KiB.
# 2 n d + n + 64 * 2 n d of n = 8,192, d = 128: 272.6 MB; with 4 n^2 more, 809.5 MB.
def test_blocks_of_the_second_flash_attention():
    picture = blocks_and_traffic(block_q=128, block_k=64, head_dim=128, seq_len=8192)
    assert picture.caption == (
        "Tiles of 128 queries and 64 keys take 113 KiB and move 272.6 MB a head, 3.0 times less "
        "than with scores in slow memory; with keys in the outer loop 2.98 times as much."
    )
    assert "113 KiB needed" in [text.get_text() for text in picture.figure.axes[0].texts]
    assert not overlapping_texts(picture.figure)


def test_a_tile_that_does_not_fit_says_so_in_words_and_colour():
    picture = blocks_and_traffic(block_q=512, block_k=256, head_dim=256, seq_len=1024)
    room = picture.figure.axes[0]
    assert "does not fit" in room.texts[1].get_text()
    assert room.patches[0].get_facecolor()[:3] == pytest.approx(
        tuple(int(colours.WRONG[n : n + 2], 16) / 255 for n in (1, 3, 5))
    )


def test_axes_stand_still():
    small = {"block_q": 16, "block_k": 16, "head_dim": 64, "seq_len": 1024}
    large = {"block_q": 512, "block_k": 256, "head_dim": 256, "seq_len": 32768}
    one, other = (blocks_and_traffic(**sizes) for sizes in (small, large))
    for axis in (0, 1):
        limits = [
            p.figure.axes[axis].get_xlim() + p.figure.axes[axis].get_ylim() for p in (one, other)
        ]
        assert limits[0] == limits[1]
