"""This process becomes a rank: a group of all that torchrun has started, or of fakes.

    >>> comm = join("09", backend=None, limit_seconds=60.0)
    >>> comm.all_reduce(torch.ones(3, device=comm.device))
    >>> comm.sent_bytes

Messages between neighbours get a group for each direction. NCCL works off the calls of a group in
order: two ranks that both send first, and receive afterwards in the same group, wait for each other
for ever. It also connects the ranks of a group at its first call, which waits for all of them; so
all connections are made beforehand, in one order.

Sources: PyTorch documentation, "Distributed communication package" and "torchrun";
pytorch/pytorch issues 109401 (sends and receives between the same two ranks) and 108378 (the first
call of a group waits for the others).
"""

import datetime
import importlib
import os

import torch
import torch.distributed as dist

from course_utils.distributed.call_log import CallLog
from course_utils.distributed.call_matching import MESSAGES, Call, Exchange, Group
from course_utils.distributed.sent_bytes import ring_sent_bytes
from course_utils.distributed.torch_comm import VARIABLES, TorchComm, require_backend

FAKE_GROUP = "torch.testing._internal.distributed.fake_pg"  # private: there is no public one


class NoGpuError(ValueError):
    """There is no GPU for this rank, whereas there may be one for others."""


class CountedCalls(CallLog):
    """The calls of one rank, and the bytes that it sends in them.

    Attributes:
        num_calls: Calls so far.
        sent_bytes: Bytes sent to other ranks so far, counted as in a ring.
    """

    def __init__(self, rank: int) -> None:
        """Start at zero."""
        super().__init__(rank)
        self.num_calls = self.sent_bytes = 0

    def record(self, call: Call, group: Group) -> tuple[int, Exchange]:
        """Count a call that is about to be made, and log it."""
        self.num_calls += 1
        self.sent_bytes += ring_sent_bytes(call, group.members, self.rank)
        return super().record(call, group)


class RealComm(TorchComm):
    """This process's connection to the other ranks, which counts what is sent.

    Attributes:
        device: Where this rank's tensors belong.
        counted: Its calls and their bytes.
    """

    def __init__(self, device: torch.device) -> None:
        """Join the group of all ranks, which must be there."""
        self.counted = CountedCalls(dist.get_rank())
        super().__init__(self.counted, Group(tuple(range(dist.get_world_size()))))
        self.device = device
        self._channels: dict[tuple[int, int], dist.ProcessGroup] = {}

    def connect_neighbours(self) -> None:
        """Connect each rank with the next one and the one before; all ranks must call it."""
        ring = [(rank, (rank + 1) % self.size) for rank in range(self.size)]
        pairs = dict.fromkeys([*ring, *((to, source) for source, to in ring)])
        token = torch.zeros(1, device=self.device)
        for source, to in (pair for pair in pairs if pair[0] != pair[1]):
            channel = dist.new_group([source, to])
            self._channels[source, to] = channel
            if self.rank == source:
                dist.send(token, dst=to, group=channel)
            elif self.rank == to:
                dist.recv(token, src=source, group=channel)

    def _start_work(
        self, call: Call, tensor: torch.Tensor | None, output: torch.Tensor | None
    ) -> object:
        if call.kind not in MESSAGES:
            return super()._start_work(call, tensor, output)
        assert tensor is not None and call.peer is not None
        if call.kind == "send":
            return dist.isend(
                tensor, dst=call.peer, group=self._channels.get((self.rank, call.peer))
            )
        return dist.irecv(tensor, src=call.peer, group=self._channels.get((call.peer, self.rank)))


def join(unit: str, backend: str | None, limit_seconds: float) -> RealComm:
    """The group of all ranks that torchrun has started, seen from this process.

    Args:
        unit: Two digits, for the sentence that says how to start it.
        backend: ``"nccl"`` for GPUs, ``"gloo"`` for CPUs; NCCL where there are GPUs if None.
        limit_seconds: A call that takes longer fails.

    Raises:
        ValueError: If torchrun did not start this process, if there is no such backend here, or no
            GPU for this rank.
    """
    command = f"torchrun --standalone --nproc-per-node 2 -m course_utils.torchrun {unit}"
    if missing := [name for name in VARIABLES if name not in os.environ]:
        raise ValueError(
            f"Each rank reads {', '.join(VARIABLES)} from its environment, where torchrun sets "
            f"them. Missing: {', '.join(missing)}. Start it with `{command}`. What one of 64 ranks "
            f"would send, a single process says: "
            f"`python -m course_utils.torchrun {unit} --dry-run 64`."
        )
    has_gpus = dist.is_nccl_available() and torch.cuda.is_available()
    backend = backend or ("nccl" if has_gpus else "gloo")
    require_backend(backend)
    device = _own_gpu(command) if backend == "nccl" else torch.device("cpu")
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=limit_seconds))
    return RealComm(device)


def _own_gpu(command: str) -> torch.device:
    """The GPU of this rank, made the current device; each rank of a machine has one for itself."""
    local_rank, num_gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local_rank >= num_gpus:
        raise NoGpuError(
            f"With NCCL each rank has a GPU of its own. Rank {os.environ['RANK']} is number "
            f"{local_rank} on its machine, counted from 0, and torch sees {num_gpus} GPUs there: "
            f"start {num_gpus} processes a machine (`--nproc-per-node {num_gpus}`), or use the "
            f"CPUs (`{command} --backend gloo`)."
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def join_fakes(num_ranks: int, rank: int) -> RealComm:
    """One of so many ranks whose calls return at once and move nothing: torch's fake group.

    Raises:
        ValueError: If there is no such rank.
    """
    if not 0 <= rank < num_ranks:
        raise ValueError(
            f"A dry run of {num_ranks} ranks has ranks 0 to {num_ranks - 1}, and {rank} came: "
            f"choose one of those with `--rank`."
        )
    store = importlib.import_module(FAKE_GROUP).FakeStore()
    dist.init_process_group("fake", store=store, rank=rank, world_size=num_ranks)
    return RealComm(torch.device("cpu"))
