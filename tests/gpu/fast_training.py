"""An optimised training step: compiled layers, flash attention, fused update, loss in chunks.

It computes the same as `course_utils.reference.Training` in bf16, but faster:

- the layers are compiled, which fuses everything between the products;
- the loss takes the tokens in chunks, each forward and backward at once, so only the logits of one
  chunk are in memory and none are computed twice;
- one kernel updates all master weights, and one copies them to the bf16 weights.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW

from course_utils.configs import ModelConfig, RunConfig
from course_utils.reference import Transformer


class FastTraining:
    """A bf16 model, one batch of random tokens and an optimizer."""

    def __init__(
        self,
        model: ModelConfig,
        run: RunConfig,
        device: str,
        *,
        num_chunks: int = 8,
        backend: str = "inductor",
    ) -> None:
        """Build everything on a device; ``backend`` compiles it, but ``"eager"`` does not."""
        self.model = Transformer(model, device, torch.bfloat16, run.kernels)
        for block in self.model.blocks:
            block.compile(backend=backend, dynamic=False)
        self.chunk_loss: Callable[[Tensor, Tensor], Tensor] = torch.compile(
            self._chunk_loss, backend=backend, dynamic=False
        )
        shape = (run.micro_batch_size, run.seq_len + 1)
        tokens = torch.randint(model.vocab_size, shape, device=device)
        self.ids, self.targets = tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()
        self.num_chunks = num_chunks
        self.weights = list(self.model.parameters())
        self.masters = [nn.Parameter(weight.detach().float()) for weight in self.weights]
        self.optimizer = AdamW(self.masters, fused=True)

    def step(self) -> None:
        """Forward, backward, update."""
        self.backward()
        for master, weight in zip(self.masters, self.weights, strict=True):
            assert weight.grad is not None
            master.grad, weight.grad = weight.grad.float(), None
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_copy_(self.weights, self.masters)

    def backward(self) -> None:
        """Fill in the gradients: first chunk by chunk through the loss, then through the layers."""
        x = self._last_hidden()
        detached = x.detach().requires_grad_()
        chunks = zip(
            detached.flatten(0, 1).chunk(self.num_chunks),
            self.targets.chunk(self.num_chunks),
            strict=True,
        )
        for chunk, targets in chunks:
            self.chunk_loss(chunk, targets).backward()
        x.backward(detached.grad)

    def _last_hidden(self) -> Tensor:
        x = self.model.embedding(self.ids)
        for block in self.model.blocks:
            x = block(x)
        return x

    def _chunk_loss(self, chunk: Tensor, targets: Tensor) -> Tensor:
        logits = self.model.head(self.model.final_norm(chunk)).float()
        return F.cross_entropy(logits, targets, reduction="sum") / self.targets.numel()
