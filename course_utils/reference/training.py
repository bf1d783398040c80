"""A common training step: forward, backward, AdamW, free the gradients.

In fp32 the optimizer updates the weights themselves. In bf16 it updates fp32 copies, the master
weights: each gradient is cast to fp32, and the new weight back to bf16.

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

# How AdamW computes its update: one tensor after the other, with two temporaries of its size; all
# tensors at once, with one temporary each (the default on a GPU); in one kernel, with none.
ADAMW = ("for-loop", "foreach", "fused")

LEARNING_RATE = 1e-3


class Training:
    """A model, one batch of random tokens, and optimizers; `step` is a training step.

    Attributes:
        model: The transformer.
        optimizers: One for all weights with ``"foreach"``, else one per weight, so at most one
            gradient is in fp32 at a time.
    """

    def __init__(
        self,
        model: ModelConfig,
        run: RunConfig,
        *,
        adamw: str = "for-loop",
        device: str = "cpu",
    ) -> None:
        """Build everything in the run's precision, on a device or with fake tensors.

        Args:
            model: Sizes of the model.
            run: Batch, precision, kernels, and whether the loss is in fp32.
            adamw: One of `ADAMW`.
            device: Device of model, batch and optimizer: ``"cpu"`` or ``"cuda"``.

        Raises:
            ValueError: If there is no such AdamW, or if the precision combines gradients in fp32
                with weights in bf16.
        """
        _validate(run, adamw)
        dtype = FLOATS[run.precision.weight_bytes]
        self.model = Transformer(model, device, dtype, run.kernels)
        self.run = run
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
        """What holds memory from step to step: the model and the optimizers."""
        return (self.model, *self.optimizers)

    def step(self) -> None:
        """Run forward, backward and update; then free the gradients."""
        self.loss().backward()
        for optimizer in self.optimizers:
            self._update(optimizer)
        self.model.zero_grad()

    def loss(self) -> Tensor:
        """The mean cross-entropy of the batch."""
        return token_loss(self.model(self.ids), self.targets, self.run.is_loss_fp32)

    @torch.no_grad()
    def _update(self, optimizer: AdamW) -> None:
        """Take one optimizer step, on the master weights if there are any."""
        pairs = [(each, self._weight_of[each]) for each in optimizer.param_groups[0]["params"]]
        pairs = [(master, weight) for master, weight in pairs if master is not weight]
        for master, weight in pairs:
            assert weight.grad is not None
            master.grad = weight.grad.float()
        optimizer.step()
        for master, weight in pairs:
            weight.copy_(master)
            master.grad = None


def _validate(run: RunConfig, adamw: str) -> None:
    if adamw not in ADAMW:
        raise ValueError(f"Training: adamw must be one of {', '.join(ADAMW)}, got {adamw!r}")
    if run.precision.gradient_bytes != run.precision.weight_bytes:
        raise ValueError(
            "Training keeps gradients in the precision of the weights: use precision('fp32') or "
            "precision('bf16')"
        )
