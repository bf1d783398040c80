"""The machine of slow and fast memory, against programs counted by hand."""

import re

import pytest
import torch

from course_utils.instruments import Move, OutOfFastMemory, TwoLevelMemory


def arange(*shape: int) -> torch.Tensor:
    numbers = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return numbers.view(shape)


def test_a_copy_in_tiles_moves_every_number_once_each_way():
    machine, source, target = TwoLevelMemory(capacity=12), arange(5, 3), torch.zeros(5, 3).double()
    x, y = machine.slow(source, "x"), machine.slow(target, "y")
    for i in range(0, 5, 2):
        machine.store(2 * machine.load(x[i : i + 2]), y[i : i + 2])
    assert torch.equal(target, 2 * source)
    assert (machine.loaded_elements, machine.stored_elements) == (15, 15)
    assert machine.traffic_elements == 30
    assert machine.peak_elements == 12  # a tile of 2 x 3, and twice it
    assert machine.live_elements == 0


def product(machine: TwoLevelMemory, a, b, c, block: int) -> None:
    """C = A B in square tiles, one tile of C at a time."""
    for i in range(0, len(a), block):
        for j in range(0, b.shape[1], block):
            total = machine.full(c[i : i + block, j : j + block].shape, 0.0)
            for k in range(0, len(b), block):
                one, other = machine.load(a[i : i + block, k : k + block]), None
                other = machine.load(b[k : k + block, j : j + block])
                total += one @ other
                del one, other
            machine.store(total, c[i : i + block, j : j + block])
            del total


@pytest.mark.parametrize("block", [1, 2, 3, 6])
def test_a_product_in_tiles_moves_what_a_pencil_says(block):
    """Every number of A is loaded once for each column of tiles, and B once for each row."""
    a, b = torch.randn(6, 6).double(), torch.randn(6, 6).double()
    c, machine = torch.zeros(6, 6).double(), TwoLevelMemory(capacity=4 * block**2)
    product(machine, *map(machine.slow, (a, b, c)), block)
    assert torch.allclose(c, a @ b)
    assert machine.loaded_elements == 2 * 36 * (6 // block)
    assert machine.stored_elements == 36
    # a tile of A, of B, of C, and the product before it is added
    assert machine.peak_elements == 4 * block**2


def test_two_tiles_of_one_memory_take_room_once():
    machine = TwoLevelMemory()
    tile = machine.load(machine.slow(arange(4, 6)))
    views = [tile.mT, tile[1:], tile[:, None], *tile, *tile.split(2)]
    assert machine.live_elements == 24
    del tile
    assert machine.live_elements == 24
    copy = views[0] + 0
    assert machine.live_elements == 48
    del views
    assert machine.live_elements == 24
    assert tuple(copy.shape) == (6, 4)


def test_what_is_changed_in_place_takes_no_room():
    machine = TwoLevelMemory(capacity=24)
    tile = machine.load(machine.slow(arange(4, 6)))
    tile *= 2
    tile.exp_().sub_(1)
    assert machine.peak_elements == 24
    del tile
    assert machine.live_elements == 0


def test_several_results_of_one_operation_each_take_room():
    machine = TwoLevelMemory()
    tile = machine.load(machine.slow(arange(4, 6)))
    largest, places = tile.max(1)
    assert machine.live_elements == 24 + 4 + 4
    del tile, largest
    assert machine.live_elements == 4
    del places


def test_a_tile_too_many_is_refused_and_leaves_no_trace():
    machine = TwoLevelMemory(capacity=30)
    x = machine.slow(arange(4, 6))
    tile = machine.load(x)
    with pytest.raises(OutOfFastMemory, match=r"holds 30 numbers, but 36 are needed"):
        machine.load(x[:2])
    assert (machine.live_elements, machine.peak_elements) == (24, 24)
    del tile
    assert machine.live_elements == 0


def test_moves_tell_what_went_where():
    machine = TwoLevelMemory()
    x, y = machine.slow(arange(6, 4), "x"), machine.slow(torch.zeros(6).double(), "y")
    tile = machine.load(x[2:5, 1:3])
    machine.store(tile.sum(1), y[2:5])
    transposed = machine.load(x.T[1:3])
    assert tuple(transposed.shape) == (2, 6)
    assert machine.moves == [
        Move("load", "x", (2, 5), (1, 3), 6),
        Move("store", "y", (2, 5), (0, 1), 9),
        Move("load", "x", (0, 6), (1, 3), 18),
    ]


def test_sizes_without_numbers():
    machine = TwoLevelMemory(device="meta")
    x = machine.slow(torch.empty(2**40, 2**11, device="meta"))
    tile = machine.load(x[: 2**39])
    assert tuple((tile @ tile.mT[:, :3] + machine.full((1, 3), 0.0)).shape) == (2**39, 3)
    assert machine.loaded_elements == 2**50


LEAVING = {
    "tolist": lambda tile: tile.tolist(),
    "item": lambda tile: tile.sum().item(),
    "float": lambda tile: float(tile[0, 0]),
    "bool": lambda tile: 1 if tile[0, 0] > 0 else 2,
    "numpy": lambda tile: tile.numpy(),
    "contains": lambda tile: 1.0 in tile,
}


@pytest.mark.parametrize("how", LEAVING)
def test_numbers_leave_by_store_alone(how):
    machine = TwoLevelMemory()
    tile = machine.load(machine.slow(arange(2, 2)))
    with pytest.raises(ValueError, match=rf"`{how}` takes numbers out .* store the tile"):
        LEAVING[how](tile)


@pytest.mark.parametrize("operation", ["add", "matmul", "where"])
def test_no_number_comes_from_outside(operation):
    machine = TwoLevelMemory()
    tile, outside = machine.load(machine.slow(arange(2, 2))), torch.ones(2, 2).double()
    with pytest.raises(ValueError, match=r"lies in no memory of the machine: make it with"):
        if operation == "where":
            torch.where(tile > 0, tile, outside)
        else:
            getattr(torch, operation)(outside, tile)


SLOW = {
    "add": lambda x: x + 1,
    "product": lambda x: x @ x,
    "function": torch.exp,
    "softmax": lambda x: torch.softmax(x, -1),
    "loop": list,
    "comparison": lambda x: x > 0,
}


@pytest.mark.parametrize("how", SLOW)
def test_nothing_is_computed_in_slow_memory(how):
    x = TwoLevelMemory().slow(arange(2, 2), "x")
    with pytest.raises(ValueError, match="lies in slow memory: load a part of it"):
        SLOW[how](x)
    with pytest.raises(AttributeError, match="lies in slow memory"):
        x.sum()
    with pytest.raises(ValueError, match="lies in slow memory"):
        x + TwoLevelMemory().full((2, 2), 0.0)


def test_what_cannot_be_moved_is_named():
    machine = TwoLevelMemory()
    x = machine.slow(arange(2, 3), "x")
    tile = machine.load(x)
    with pytest.raises(ValueError, match="load wants an array in slow memory, got Tensor"):
        machine.load(arange(2, 3))
    with pytest.raises(ValueError, match=r"store wants a tile and an array .* got Tensor and Slow"):
        machine.store(arange(2, 3), x)
    with pytest.raises(
        ValueError, match=re.escape("a tile of (2, 3) does not fit an array of (1,")
    ):
        machine.store(tile, x[:1])


def test_machine_arrays_and_tiles_show_themselves():
    machine = TwoLevelMemory(capacity=100)
    x = machine.slow(arange(2, 3), "x")
    tile = machine.load(x)
    assert repr(x) == "<array x of (2, 3) in slow memory>"
    assert f"{tile}" == repr(tile) == "<tile of (2, 3) in fast memory>"
    assert repr(machine) == (
        "Machine: loaded 6 numbers, stored 0; at most 6 of 100 in fast memory, 6 there now"
    )
    assert [tuple(row.shape) for row in machine.arange(0, 4).view(2, 2)] == [(2,), (2,)]


def test_two_machines_share_nothing():
    one, other = TwoLevelMemory(), TwoLevelMemory()
    x = one.slow(arange(2, 3), "x")
    tile = one.load(x)
    for attempt in (
        lambda: other.load(x),
        lambda: other.store(tile, x),
        lambda: one.store(other.full((2, 3), 0.0), x),
        lambda: tile + other.full((2, 3), 0.0),
    ):
        with pytest.raises(ValueError, match="in the memory of another machine"):
            attempt()
