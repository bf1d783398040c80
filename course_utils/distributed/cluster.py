"""How long would this training step take on many devices? N ranks in one process, on a clock.

The function of a rank runs as it is written, hooks and all, on small tensors or on those of the
meta device. One rank runs at a time and the next one only when it waits, so that two runs never
differ. The clock of a rank is virtual: matrix products move it by their FLOPs, all other operations
by nothing, and waiting to where a message has come. Communication has lanes of its own, so that it
runs while the rank computes.

    >>> cluster = VirtualCluster(8, network=NVLINK, flops_per_second=400e12)
    >>> run = cluster.run(step, model, batch)
    >>> run.step_seconds, run.exposed_seconds(rank=0)

A rank has one lane on which it sends and one on which it receives. A collective takes both of all
ranks in its group, and begins when the last rank has called it and the last lane is free; a message
takes one of the sender's and one of the receiver's, and begins when both are there.

Not seen: work that is no matrix product, memory, what kernels and messages take from each other.
"""

import copy
import importlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils.configs.validation import require_positive
from course_utils.distributed.call_matching import Call, Group
from course_utils.distributed.cluster_run import ClusterRun
from course_utils.distributed.comm import Comm
from course_utils.distributed.delivery import Post, Transfer
from course_utils.distributed.links import Link, Network
from course_utils.distributed.scheduler import Rank, Scheduler
from course_utils.instruments.exclusive import exclusive
from course_utils.instruments.flop_count import is_uncounted_product, operation_flops
from course_utils.instruments.preconditions import torch_settings_kept

# Round numbers near an H100: 40 % of its dense peak in bf16, and what its links give a large ring.
DEFAULT_FLOPS_PER_SECOND = 400e12
DEFAULT_NETWORK = Network(inside=Link(latency_seconds=10e-6, bandwidth_bytes_per_second=200e9))


@dataclass(frozen=True)
class VirtualCluster:
    """Ranks that are threads, on devices that are numbers.

    Attributes:
        num_ranks: How many.
        network: What their messages take.
        flops_per_second: Of each device in matrix products, as they run, not at their peak.
        seed: Rank r begins with random numbers of ``seed + r``.
        limit_seconds: Real seconds after which ranks that still run are stopped.
    """

    num_ranks: int
    _: KW_ONLY
    network: Network = DEFAULT_NETWORK
    flops_per_second: float = DEFAULT_FLOPS_PER_SECOND
    seed: int = 0
    limit_seconds: float = 120.0

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        require_positive("VirtualCluster", num_ranks=self.num_ranks)
        for name in ("flops_per_second", "limit_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(
                    f"VirtualCluster: {name} must be above zero, got {getattr(self, name)!r}"
                )

    @exclusive
    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> ClusterRun:
        """Call ``function(comm, *args, **kwargs)`` on each rank.

        Each rank gets copies of the arguments, but what the function finds outside is the same for
        all. Random numbers and the settings of torch are afterwards as they were.

        Raises:
            TypeError: If it is no function, or an argument cannot be copied.
            RankError: If a rank raises; its error is the cause.
            DeadlockError: If all ranks wait, or wait for one that has returned.
            MismatchError: If ranks call different collectives, or with other shapes or dtypes.
            TimeLimitError: If they do not return in time.
            CommError: If a rank does not wait for a call, or changes its tensor meanwhile.
            ValueError: If another instrument runs.
        """
        if not callable(function):
            raise TypeError(
                f"VirtualCluster.run wants a function of comm, got {type(function).__name__}"
            )
        # The first operation under a mode imports this, and no rank should be stopped in it.
        importlib.import_module("torch._dynamo")
        copies = [_copied(args, kwargs) for _ in range(self.num_ranks)]
        machine = Scheduler(self.num_ranks, self.network, self.seed)

        def call(rank: Rank) -> Any:
            args, kwargs = copies[rank.number]
            with _ComputeOnClock(machine, rank, self.flops_per_second):
                return function(_VirtualComm(machine, rank, machine.world), *args, **kwargs)

        with torch_settings_kept():
            machine.run(call, self.limit_seconds)
        return machine.outcome()


def _copied(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    try:
        return copy.deepcopy((args, kwargs))
    except Exception as error:
        raise TypeError(
            f"VirtualCluster.run gives each rank a copy of the arguments, and one of them cannot "
            f"be copied ({error}): make it inside the function"
        ) from error


class _ComputeOnClock(TorchDispatchMode):
    """Moves the clock of a rank by each operation that it runs."""

    def __init__(self, machine: Scheduler, rank: Rank, flops_per_second: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.machine, self.rank, self.flops_per_second = machine, rank, flops_per_second

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.machine.turns.check()
        if is_uncounted_product(func):
            with self:  # made of others, as `linear` without autograd
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        flops = operation_flops(func, args, kwargs, result)
        if flops:
            self.rank.compute(flops / self.flops_per_second)
        return result


@dataclass(frozen=True, eq=False)
class _VirtualHandle:
    machine: Scheduler
    rank: Rank
    transfer: Transfer

    def wait(self) -> None:
        self.machine.wait(self.rank, self.transfer)


class _VirtualComm(Comm):
    """One rank's way to the others in the same process."""

    def __init__(self, machine: Scheduler, rank: Rank, group: Group) -> None:
        super().__init__(rank.number, group)
        self._machine, self._rank = machine, rank

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> _VirtualHandle:
        return self._post(call, Post(tensor, output, self._rank.clock))

    def _post(self, call: Call, post: Post) -> _VirtualHandle:
        self._machine.turns.check()
        transfer = self._machine.post(self._rank, call, self._group, post)
        return _VirtualHandle(self._machine, self._rank, transfer)

    def split(self, colour: int) -> "Comm":
        """The ranks that give the same number become a group, in the order of their ranks."""
        handle = self._post(Call("split"), Post(None, None, self._rank.clock, colour))
        handle.wait()
        posts, number = handle.transfer.posts, handle.transfer.exchange.number
        members = tuple(each for each in self._group.members if posts[each].colour == colour)
        group = Group(members, f"{self._group.name}/{number}: {colour}")
        return _VirtualComm(self._machine, self._rank, group)
