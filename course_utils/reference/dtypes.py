"""Which type of torch has so many bytes? Configs speak of bytes, and tensors of types."""

import torch

FLOATS = {2: torch.bfloat16, 4: torch.float32}
