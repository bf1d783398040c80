"""A training step made fast: compiled layers, flash attention, one update, the loss in pieces.

What it computes is what `course_utils.reference.Training` computes in bf16; how is another matter:

- the layers are compiled, which fuses all that lies between the products;
- the loss goes through the tokens in pieces, each forward and backward at once, so that the logits
  of one piece are in memory and none is computed twice;
- one kernel updates all master weights, and one copies them to the weights in bf16.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW

from course_utils.configs import ModelConfig, RunConfig
from course_utils.reference import Transformer


class FastTraining:
    """A model in bf16, one batch of random tokens, and what updates the model."""

    def __init__(
        self,
        model: ModelConfig,
        run: RunConfig,
        device: str,
        *,
        num_pieces: int = 8,
        backend: str = "inductor",
    ) -> None:
        """Build all on a device; ``backend`` compiles, ``"eager"`` leaves all as it is."""
        self.model = Transformer(model, device, torch.bfloat16, run.kernels)
        for block in self.model.blocks:
            block.compile(backend=backend, dynamic=False)
        self.loss_of: Callable[[Tensor, Tensor], Tensor] = torch.compile(
            self._loss_of, backend=backend, dynamic=False
        )
        shape = (run.micro_batch_size, run.seq_len + 1)
        tokens = torch.randint(model.vocab_size, shape, device=device)
        self.ids, self.targets = tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()
        self.num_pieces = num_pieces
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
        """Fill in the gradients: first of the pieces, then of all that comes before them."""
        x = self._before_the_loss()
        kept = x.detach().requires_grad_()
        pieces = zip(
            kept.flatten(0, 1).chunk(self.num_pieces),
            self.targets.chunk(self.num_pieces),
            strict=True,
        )
        for piece, targets in pieces:
            self.loss_of(piece, targets).backward()
        x.backward(kept.grad)

    def _before_the_loss(self) -> Tensor:
        x = self.model.embedding(self.ids)
        for block in self.model.blocks:
            x = block(x)
        return x

    def _loss_of(self, piece: Tensor, targets: Tensor) -> Tensor:
        logits = self.model.head(self.model.final_norm(piece)).float()
        return F.cross_entropy(logits, targets, reduction="sum") / self.targets.numel()
