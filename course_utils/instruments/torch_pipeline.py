"""In which order does a stage of PyTorch's own pipeline really work? It notes each pass.

    >>> def rank(comm: Comm) -> list[Action]:
    ...     return recorded_step(ScheduleGPipe, nn.Linear(8, 8), micro_batches, loss)
    >>> run_ranks(rank, 2)[0]
    [('F', 0, 0), ('F', 1, 0), ('B', 0, 0), ('B', 1, 0)]

The stage is asked, not the plan: in torch 2.13 `Schedule1F1B.pipeline_order` names micro-batches
that do not exist, though what runs is right.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

from course_utils.configs.pipeline import Action


class _RecordedStage(PipelineStage):
    """The stage of this process; it notes each forward and backward pass as it begins."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module, dist.get_rank(), dist.get_world_size(), torch.device("cpu"))
        self.actions: list[Action] = []

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        self.actions.append(("F", fwd_chunk_id, 0))
        return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> None:
        self.actions.append(("B", bwd_chunk_id, 0))
        super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)


def recorded_step(
    kind: type[PipelineScheduleSingle],
    module: nn.Module,
    micro_batches: Sequence[Tensor],
    loss: Callable[[Tensor], Tensor],
) -> list[Action]:
    """Run one step as the stage of this process, and return its actions in order.

    Gradients, summed over micro-batches, add up in ``grad``.

    Args:
        kind: Torch's `ScheduleGPipe` or `Schedule1F1B`; each process has one stage.
        module: The part of the model on this stage.
        micro_batches: The inputs of the first stage; of them the others use only the number.
        loss: From the last stage's output to the share of one micro-batch in the loss.
    """
    stage = _RecordedStage(module)
    schedule = kind(
        stage, len(micro_batches), loss_fn=lambda output, _: loss(output), scale_grads=False
    )
    batch = torch.cat(list(micro_batches))
    inputs = (batch,) if stage.is_first else ()
    schedule.step(*inputs, target=batch)  # unused, but without a target there is no loss
    return stage.actions
