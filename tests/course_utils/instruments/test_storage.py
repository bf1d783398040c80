"""The bytes of the whole storage behind a tensor, even if the tensor is a view."""

import torch

from course_utils.instruments import storage_bytes


def test_bytes_of_real_and_meta_tensors():
    for device in ("cpu", "meta"):
        tensor = torch.empty(3, 5, dtype=torch.bfloat16, device=device)
        assert storage_bytes(tensor) == 30


def test_a_view_reports_the_storage_it_shares():
    base = torch.empty(4, 1000)
    assert storage_bytes(base[:1]) == storage_bytes(base.t()) == storage_bytes(base) == 16_000
    assert storage_bytes(base[:1].clone()) == 4_000


def test_an_empty_tensor_and_a_single_number():
    assert storage_bytes(torch.empty(0, 5)) == 0
    assert storage_bytes(torch.tensor(3.14)) == 4
