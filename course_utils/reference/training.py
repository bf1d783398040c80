"""A training step as it is commonly written: forward, backward, AdamW, gradients let go.

In fp32 the optimizer updates the weights themselves. In bf16 it updates copies of them in fp32, the
master weights: each gradient is turned to fp32, and the new weight back to bf16.

    >>> with fake_tensors():
    ...     run = RunConfig(seq_len=4096, precision=precision("fp32"))
    ...     training = Training(preset("Llama-3.2-1B"), run)
    ...     trace = trace_memory(training.step, *training.owners, num_steps=4)
    >>> round(trace.peak_bytes / 2**30, 2)
    31.0

Sources: Loshchilov and Hutter 2019, Decoupled Weight Decay Regularization; Micikevicius et al.
2018, Mixed Precision Training, section 3.1.
"""

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from course_utils.configs import ModelConfig, RunConfig
from course_utils.reference.dtypes import FLOATS
from course_utils.reference.transformer import Transformer, token_loss

# How AdamW computes its update: for one tensor after the other, with two temporaries of its size;
# for all tensors at once, with one temporary for each (as on a GPU unless told otherwise); in one
# kernel, with none.
ADAMW = ("for-loop", "foreach", "fused")

LEARNING_RATE = 1e-3


class Training:
    """A model, one batch of random tokens, and what updates the model; `step` is a training step.

    Attributes:
        model: The transformer.
        optimizers: One for all weights with ``"foreach"``, else one for each, so that no more than
            one gradient is in fp32 at a time.
    """

    def __init__(
        self,
        model: ModelConfig,
        run: RunConfig,
        *,
        adamw: str = "for-loop",
        is_grad_let_go: bool = True,
        device: str = "cpu",
    ) -> None:
        """Build all in the precision of the run, on a device or on fake tensors.

        Args:
            model: Sizes of the model.
            run: Batch, precision, kernels, and whether the loss is in fp32.
            adamw: One of `ADAMW`.
            is_grad_let_go: Whether gradients are freed after each step, or set to zero.
            device: Of model, batch and optimizer: ``"cpu"`` or ``"cuda"``.

        Raises:
            ValueError: If there is no such AdamW, or if the precision keeps gradients in fp32
                beside weights in bf16.
        """
        _require_known(run, adamw)
        dtype = FLOATS[run.precision.weight_bytes]
        self.model = Transformer(model, device, dtype, run.kernels)
        self.run, self.is_grad_let_go = run, is_grad_let_go
        shape = (run.micro_batch_size, run.seq_len + 1)
        tokens = torch.randint(model.vocab_size, shape, device=device)
        self.ids, self.targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        weights = list(self.model.parameters())
        if run.precision.master_weight_bytes:
            masters = [nn.Parameter(weight.detach().float()) for weight in weights]
        else:
            masters = weights
        self._weight_of = dict(zip(masters, weights, strict=True))
        self.optimizers = [
            AdamW(group, LEARNING_RATE, foreach=adamw == "foreach", fused=adamw == "fused")
            for group in ([masters] if adamw == "foreach" else [[each] for each in masters])
        ]

    @property
    def owners(self) -> tuple[nn.Module | AdamW, ...]:
        """All that holds memory from step to step: the model and the optimizers."""
        return (self.model, *self.optimizers)

    def step(self) -> None:
        """Forward, backward, update; then the gradients are let go."""
        self.loss().backward()
        for optimizer in self.optimizers:
            self._update(optimizer)
        self.model.zero_grad(set_to_none=self.is_grad_let_go)

    def loss(self) -> Tensor:
        """The mean cross-entropy of the batch."""
        return token_loss(self.model(self.ids), self.targets, self.run.is_loss_fp32)

    @torch.no_grad()
    def _update(self, optimizer: AdamW) -> None:
        """One step of an optimizer, on master weights where they are not the weights."""
        pairs = [(each, self._weight_of[each]) for each in optimizer.param_groups[0]["params"]]
        pairs = [(master, weight) for master, weight in pairs if master is not weight]
        for master, weight in pairs:
            assert weight.grad is not None
            master.grad = weight.grad.float()
        optimizer.step()
        for master, weight in pairs:
            weight.copy_(master)
            master.grad = None


def _require_known(run: RunConfig, adamw: str) -> None:
    if adamw not in ADAMW:
        raise ValueError(f"Training: adamw must be one of {', '.join(ADAMW)}, got {adamw!r}")
    if run.precision.gradient_bytes != run.precision.weight_bytes:
        raise ValueError(
            "Training keeps gradients in the precision of the weights: use precision('fp32') or "
            "precision('bf16')"
        )
