"""The counter counts what runs: forward, backward, and nothing if no gradient is required."""

import pytest
import torch

from course_utils.instruments import count_flops


def product(a_requires_grad: bool, b_requires_grad: bool):
    a = torch.empty(2, 3, device="meta", requires_grad=a_requires_grad)
    b = torch.empty(3, 5, device="meta", requires_grad=b_requires_grad)
    return count_flops(lambda: a @ b)


def test_backward_costs_one_product_for_each_gradient():
    assert product(False, False) == (60, 0)
    assert product(True, False) == (60, 60)
    assert product(False, True) == (60, 60)
    assert product(True, True) == (60, 120)


def test_elementwise_work_is_not_counted():
    x = torch.ones(4, 4, requires_grad=True)
    assert count_flops(lambda: torch.softmax(x, -1).sum()) == (0, 0)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_real_and_meta_tensors_count_alike(device):
    a = torch.empty(5, 7, device=device, requires_grad=True)
    b = torch.empty(7, 3, device=device, requires_grad=True)
    assert count_flops(lambda: a @ b) == (210, 420)


def test_flash_attention_on_the_cpu_is_counted_and_its_backward_recomputes_the_scores():
    # 4 b a s^2 d = 4 * 2 * 8 * 32 * 32 * 8 forward; five products backward instead of four
    q = torch.randn(2, 8, 32, 8, requires_grad=True)
    k, v = (torch.randn(2, 2, 32, 8, requires_grad=True) for _ in range(2))
    counted = count_flops(
        lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    )
    assert counted == (524_288, 524_288 * 5 // 2)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: torch.ones(3, 4) @ torch.ones(4), "mv"),
        (lambda: torch.ones(4) @ torch.ones(4), "dot"),
        (
            lambda: torch.nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()(
                torch.ones(2, 3, 16)
            ),
            "_transformer_encoder_layer_fwd",
        ),
        (
            lambda: torch._int_mm(*(torch.ones(32, 32, dtype=torch.int8) for _ in range(2))),
            "_int_mm",
        ),
        (lambda: torch.addr(torch.ones(3, 3), torch.ones(3), torch.ones(3)), "addr"),
    ],
    ids=["mv", "dot", "fused layer", "integers", "outer product"],
)
def test_what_cannot_be_counted_is_refused_by_name(call, name):
    with torch.no_grad(), pytest.raises(ValueError, match=f"does not know `{name}`"):
        count_flops(call)


def test_a_call_that_returns_no_tensor_is_rejected():
    with pytest.raises(TypeError, match="wants a call that returns one tensor"):
        count_flops(lambda: 3)
