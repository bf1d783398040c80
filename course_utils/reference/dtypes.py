"""The torch dtype for a width in bytes: configs give bytes, tensors need dtypes."""

import torch

FLOATS = {2: torch.bfloat16, 4: torch.float32}
