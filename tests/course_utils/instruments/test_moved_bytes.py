"""The counter moves what an operation must: against closed forms, to the byte."""

import pytest
import torch
from torch.nn import functional as F

from course_utils.instruments import Traffic, count_bytes, count_flops, fake_tensors
from course_utils.reference import Transformer
from tests.random_models import ORDINARY_KINDS, random_model

FLOATS = [torch.float8_e4m3fn, torch.bfloat16, torch.float32, torch.float64]


def shares(call, tensor):
    """What each operation moves, in multiples of a tensor's bytes."""
    return [(each.name, each.num_bytes / tensor.nbytes) for each in count_bytes(call).operations]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(7, 3, 5), (1, 4096, 14336), (2, 3, 5), (64, 1, 64)])
def test_a_product_reads_both_factors_and_writes_the_result(sizes, dtype):
    rows, inner, columns = sizes
    a = torch.empty(rows, inner, device="meta", dtype=dtype)
    b = torch.empty(inner, columns, device="meta", dtype=dtype)
    moved = count_bytes(lambda: a @ b, left=[a])
    elements = rows * inner + inner * columns + rows * columns
    assert moved.num_bytes == dtype.itemsize * elements
    assert moved.of("left") == Traffic(a.nbytes, 0)
    assert moved.of("other") == Traffic(b.nbytes, dtype.itemsize * rows * columns)
    assert moved.of("nobody") == Traffic(0, 0)
    assert moved.flops == 2 * rows * inner * columns
    assert moved.intensity == moved.flops / moved.num_bytes


@pytest.mark.parametrize("kind", [each for each in ORDINARY_KINDS if each != "GPT"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", [(1, 8), (3, 5)])
def test_training_reads_each_weight_twice_and_looked_up_rows_once(kind, seed, sizes):
    """Forward and the gradient of the inputs read a weight; the gradient of a weight does not.

    Of the embedding, forward reads the rows of the tokens.
    """
    model = random_model(kind, seed)
    with fake_tensors():
        built = Transformer(model, dtype=torch.bfloat16)
        ids = torch.zeros(sizes, dtype=torch.long)
        moved = count_bytes(lambda: built(ids).sum().backward(), weights=built.parameters())
        flops = count_flops(lambda: built(ids))
    num_params = sum(each.numel() for each in built.parameters())
    table = 0 if model.is_tied else model.vocab_size * model.hidden_size
    rows = min(ids.numel(), model.vocab_size) * model.hidden_size
    assert moved.of("weights") == Traffic(2 * (2 * (num_params - table) + rows), 0)
    assert moved.flops == sum(flops)


def test_views_and_allocations_move_nothing():
    x = torch.ones(8, 8)
    calls = (
        lambda: x.view(4, 16).t()[1:],
        x.detach,
        lambda: torch.empty_like(x),
        x[0, 0].item,
    )
    assert [count_bytes(call).operations for call in calls] == [(), (), (), ()]


def test_what_is_written_over_is_not_read():
    x, y = torch.ones(4, 8), torch.ones(4, 8)
    assert shares(lambda: x.copy_(y), x) == [("copy_", 2)]
    assert shares(lambda: x.fill_(2.0), x) == [("fill_", 1)]
    assert shares(lambda: torch.add(x, x, out=y), x) == [("add", 2)]
    assert shares(lambda: x.add_(y), x) == [("add_", 3)]
    assert shares(lambda: x.add_(1.0), x) == [("add_", 2)]


def test_an_element_is_read_once_however_often_it_is_shown():
    x = torch.ones(1, 8)
    assert shares(lambda: x.expand(4, 8) + 1.0, x) == [("add", 1 + 4)]
    assert shares(lambda: x * x, x) == [("mul", 1 + 1)]


def test_a_lookup_reads_the_rows_that_it_fetches_and_at_most_the_table():
    table, ids = torch.ones(100, 16), torch.arange(10)
    moved = count_bytes(lambda: F.embedding(ids, table), table=[table])
    assert moved.of("table") == Traffic(640, 0)
    assert moved.of("other") == Traffic(80, 640)
    again = torch.zeros(1000, dtype=torch.long)
    assert count_bytes(lambda: table[again], table=[table]).of("table") == Traffic(6400, 0)


def test_written_out_adamw_moves_80_bytes_a_parameter():
    weight = torch.ones(100, requires_grad=True)
    weight.grad = torch.ones(100)
    optimizer = torch.optim.AdamW([weight], foreach=False)
    optimizer.step()
    moved = count_bytes(optimizer.step)
    step_count = 2 * 4  # a number that is read and written
    assert moved.num_bytes == 80 * 100 + step_count


def test_attention_on_the_cpu_is_one_operation():
    q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
    (attention,) = count_bytes(lambda: F.scaled_dot_product_attention(q, k, v)).operations
    log_sums = 4 * 2 * 16
    assert attention.num_bytes == 4 * q.nbytes + log_sums
    assert attention.flops == 4 * 2 * 16 * 16 * 8


def test_real_and_fake_tensors_count_alike():
    def moved():
        x = torch.ones(6, 5)
        weight = torch.ones(7, 5, requires_grad=True)
        return count_bytes(lambda: F.silu(F.linear(x, weight)).sum().backward(), weight=[weight])

    real = moved()
    with fake_tensors():
        assert moved() == real
    assert real.of("weight").read_bytes == 4 * 7 * 5


def test_it_says_in_one_line_what_it_counted():
    a, b = torch.empty(7, 3, device="meta"), torch.empty(3, 5, device="meta")
    assert repr(count_bytes(lambda: a @ b)) == (
        "MovedBytes: 284 bytes and 210 FLOPs, 0.739 FLOP/B, in 1 operation"
    )


def test_a_storage_has_one_owner():
    x = torch.ones(4, 4)
    with pytest.raises(ValueError, match="'two' lies in a storage of 'one'"):
        count_bytes(lambda: x + 1, one=[x], two=[x[0]])
    assert count_bytes(lambda: x + 1, one=[x, x[0]]).of("one") == Traffic(64, 0)


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(TypeError, match="write `lambda:` before the call"):
        count_bytes(torch.ones(2))
    with pytest.raises(ValueError, match="does not know `mv`"):
        count_bytes(lambda: torch.ones(3, 4) @ torch.ones(4))
    with pytest.raises(ValueError, match="cannot run inside count_bytes"):
        count_bytes(lambda: count_bytes(lambda: None))
