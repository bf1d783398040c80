"""How many bytes does a tensor really hold in memory?

>>> storage_bytes(torch.empty(4, 3, dtype=torch.bfloat16))
24
"""

import torch


def storage_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the storage behind a tensor, asked of PyTorch.

    A view shares the storage of its base and so reports all of it: as long as one element of a
    storage is in use, none of it is freed.
    """
    return tensor.untyped_storage().nbytes()
