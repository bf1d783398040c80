"""One stage of a pipeline at work: it follows its list with real tensors and real messages.

    >>> def step(comm: Comm, parts: Sequence[nn.Module]) -> None:
    ...     mine = [parts[placement.part(comm.rank, c)] for c in range(placement.num_chunks)]
    ...     run_stage(
    ...         comm, schedule, placement, modules=mine, micro_batches=micro_batches, loss=loss
    ...     )

All receives are posted before the first action, in the order in which the senders send: a message
begins when both sides have called, so a receive that is posted late delays it. (Real engines post
the next one or two, and need fewer buffers.)

Every part computes the gradient of its input, the first one too, so that all parts do the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from course_utils.configs.pipeline import Action, Placement, Schedule, name_of
from course_utils.distributed.comm import Comm, Handle

INPUT_GRADIENT = ("B", "I")
Key = tuple[str, int, int]
"""Of a message: F or B, micro-batch, the part for which it is."""


def run_stage(  # noqa: PLR0913  all but the first three by name
    comm: Comm,
    schedule: Schedule,
    placement: Placement,
    *,
    modules: Sequence[nn.Module],
    micro_batches: Sequence[Tensor],
    loss: Callable[[Tensor], Tensor],
) -> None:
    """Do all actions of this rank's stage; gradients of its weights add up in ``grad``.

    Args:
        comm: Connects as many ranks as there are stages.
        schedule: The actions of all stages.
        placement: Which part is where.
        modules: The parts of this stage, by chunk; each maps a tensor to one of the same shape.
        micro_batches: The inputs of the first part; of the others only their shape is used.
        loss: From the last part's output to the share of one micro-batch in the loss.
    """
    stage = _Stage(comm, schedule, placement, modules, micro_batches, loss)
    stage.post_receives()
    for action in schedule[comm.rank]:
        with comm.named(name_of(action, placement.num_chunks)):
            stage.do(action)
    for handle in stage.sending:
        handle.wait()


@dataclass(eq=False)
class _Stage:
    """What a stage holds between its actions."""

    comm: Comm
    schedule: Schedule
    placement: Placement
    modules: Sequence[nn.Module]
    micro_batches: Sequence[Tensor]
    loss: Callable[[Tensor], Tensor]
    arriving: dict[Key, tuple[Tensor, Handle | None]] = field(default_factory=dict)
    flights: dict[tuple[int, int], tuple[Tensor, Tensor]] = field(default_factory=dict)
    put_off: dict[tuple[int, int], tuple[Tensor, Tensor]] = field(default_factory=dict)
    sending: list[Handle] = field(default_factory=list)

    def post_receives(self) -> None:
        """Start to receive all that other stages will send to this one."""
        for source, actions in enumerate(self.schedule):
            for action in actions:
                key = self._result(source, action)
                is_for_me = key is not None and self.placement.stage_of(key[2]) == self.comm.rank
                if is_for_me and source != self.comm.rank and key is not None:
                    buffer = torch.empty_like(self.micro_batches[key[1]])
                    self.arriving[key] = buffer, self.comm.receive(buffer, source, async_op=True)

    def _result(self, stage: int, action: Action) -> Key | None:
        """The message that an action gives, if there is a part that it is for."""
        kind, micro_batch, chunk = action
        part = self.placement.part(stage, chunk)
        if kind == "F" and part + 1 < self.placement.num_parts:
            return "F", micro_batch, part + 1
        return ("B", micro_batch, part - 1) if kind in INPUT_GRADIENT and part else None

    def do(self, action: Action) -> None:
        """Do one action, and send what it gives."""
        kind, micro_batch, chunk = action
        if kind == "W":
            output, upstream = self.put_off.pop((micro_batch, chunk))
            self._add(chunk, torch.autograd.grad(output, self._weights(chunk), upstream))
            return
        result = self._forward(*action[1:]) if kind == "F" else self._backward(action)
        if key := self._result(self.comm.rank, action):
            self._hand_over(key, result.detach())

    def _forward(self, micro_batch: int, chunk: int) -> Tensor:
        part = self.placement.part(self.comm.rank, chunk)
        given = self._take(("F", micro_batch, part)) if part else self.micro_batches[micro_batch]
        given = given.detach().clone().requires_grad_()
        output: Tensor = self.modules[chunk](given)
        self.flights[micro_batch, chunk] = given, output
        return output

    def _backward(self, action: Action) -> Tensor:
        """The gradient of a part's input; of its weights too, or later."""
        kind, micro_batch, chunk = action
        given, output = self.flights.pop((micro_batch, chunk))
        upstream = self._upstream(micro_batch, chunk, output)
        if kind == "I":
            self.put_off[micro_batch, chunk] = output, upstream
            return torch.autograd.grad(output, given, upstream, retain_graph=True)[0]
        gradient, *of_weights = torch.autograd.grad(
            output, [given, *self._weights(chunk)], upstream
        )
        self._add(chunk, of_weights)
        return gradient

    def _upstream(self, micro_batch: int, chunk: int, output: Tensor) -> Tensor:
        part = self.placement.part(self.comm.rank, chunk)
        if part + 1 < self.placement.num_parts:
            return self._take(("B", micro_batch, part))
        last = output.detach().requires_grad_()
        return torch.autograd.grad(self.loss(last), last)[0]

    def _weights(self, chunk: int) -> list[nn.Parameter]:
        return list(self.modules[chunk].parameters())

    def _add(self, chunk: int, gradients: Sequence[Tensor]) -> None:
        for weight, gradient in zip(self._weights(chunk), gradients, strict=True):
            weight.grad = gradient if weight.grad is None else weight.grad + gradient

    def _hand_over(self, key: Key, tensor: Tensor) -> None:
        """Send to the stage of a part; to the own stage nothing has to be sent."""
        to = self.placement.stage_of(key[2])
        if to == self.comm.rank:
            self.arriving[key] = tensor, None
        else:
            self.sending.append(self.comm.send(tensor.contiguous(), to, async_op=True))

    def _take(self, key: Key) -> Tensor:
        tensor, handle = self.arriving.pop(key)
        if handle:
            handle.wait()
        return tensor
