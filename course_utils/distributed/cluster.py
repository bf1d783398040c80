"""How long would this training step take on many devices? N ranks in one process, on a clock.

The function of a rank runs as written, hooks and all, on small tensors or on the meta device. One
rank runs at a time until it waits, so every run gives the same. The clock of a rank is virtual:
matrix products advance it by their FLOPs, other operations not at all, and waiting moves it to the
end of the communication. Communication has lanes of its own and overlaps with compute.

    >>> cluster = VirtualCluster(8, network=NVLINK, flops_per_second=400e12)
    >>> run = cluster.run(step, model, batch)
    >>> run.step_seconds, run.exposed_seconds(rank=0)

A rank has one lane for sending and one for receiving. A collective takes both lanes of every rank
in its group, and starts when the last rank has called it and the last lane is free. A message takes
the sender's sending lane and the receiver's receiving lane, and starts when both have called.

What is computed in ``with comm.named("F3"):`` has that name in the log, to tell the parts of a
schedule apart.

Not modelled: work other than matrix products; memory; contention of kernels and messages.
"""

import copy
import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils.configs.validation import require_positive
from course_utils.distributed.call_matching import Call, Group
from course_utils.distributed.cluster_run import ClusterRun
from course_utils.distributed.comm import Comm
from course_utils.distributed.delivery import PostedCall
from course_utils.distributed.links import Link, Network
from course_utils.distributed.scheduler import Rank, RankGenerator, Scheduler, VirtualHandle
from course_utils.instruments.exclusive_use import exclusive
from course_utils.instruments.flop_count import is_uncounted_product, operation_flops
from course_utils.instruments.preconditions import torch_settings_restored
from course_utils.instruments.training_step import is_backward_running

# Round numbers near an H100: 40 % of its dense bf16 peak, and its bandwidth in a large ring.
DEFAULT_FLOPS_PER_SECOND = 400e12
DEFAULT_NETWORK = Network(inside=Link(latency_seconds=10e-6, bandwidth_bytes_per_second=200e9))


@dataclass(frozen=True)
class VirtualCluster:
    """Ranks as threads, on simulated devices.

    Attributes:
        num_ranks: Number of ranks.
        network: Model of the time that communication takes.
        flops_per_second: Achieved by each device in matrix products; not its peak.
        seed: Rank r starts with the random seed ``seed + r``.
        limit_seconds: Real seconds after which ranks that still run are stopped.
    """

    num_ranks: int
    _: KW_ONLY
    network: Network = DEFAULT_NETWORK
    flops_per_second: float = DEFAULT_FLOPS_PER_SECOND
    seed: int = 0
    limit_seconds: float = 120.0

    def __post_init__(self) -> None:
        """Refuse numbers that are not above zero."""
        require_positive("VirtualCluster", num_ranks=self.num_ranks)
        for name in ("flops_per_second", "limit_seconds"):
            number = getattr(self, name)
            if not number > 0:
                raise ValueError(f"VirtualCluster: {name} must be above zero, got {number!r}")

    @exclusive
    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> ClusterRun:
        """Call ``function(comm, *args, **kwargs)`` on each rank.

        Each rank gets its own copy of the arguments; globals and closures are shared. Random
        generators and torch settings are restored afterwards.

        Raises:
            TypeError: If it is not a function, or an argument cannot be copied.
            RankError: If a rank raises; its error is the cause.
            DeadlockError: If ranks wait for each other, or for one that has returned.
            MismatchError: If ranks call different collectives, or with different shapes or dtypes.
            TimeLimitError: If they do not return in time.
            CommError: If a rank does not wait for a call, or changes its tensor meanwhile.
            ValueError: If another instrument is running.
        """
        if not callable(function):
            raise TypeError(
                f"VirtualCluster.run wants a function of comm, got {type(function).__name__}"
            )
        # The first operation under a dispatch mode imports this; no rank may be stopped meanwhile.
        importlib.import_module("torch._dynamo")
        copies = [_copied(args, kwargs) for _ in range(self.num_ranks)]
        scheduler = Scheduler(self.num_ranks, self.network, self.seed)

        def call(rank: Rank) -> Any:
            args, kwargs = copies[rank.number]
            comm = VirtualComm(scheduler, rank, scheduler.world)
            with _ComputeClock(scheduler, rank, self.flops_per_second):
                return function(comm, *args, **kwargs)

        with torch_settings_restored():
            scheduler.run(call, self.limit_seconds)
        return scheduler.cluster_run()

    def run_generators(self, function: Callable[["VirtualComm"], RankGenerator]) -> ClusterRun:
        """Call ``function(comm)`` on each rank: a generator that yields each handle to wait for it.

        As `run`, without threads, so in a fraction of its time. Clocks advance by `compute` alone,
        random generators are shared, and nothing stops a rank that goes on for ever.

        Raises:
            CommError: As `run`.
        """
        scheduler = Scheduler(self.num_ranks, self.network, self.seed)
        comms = [VirtualComm(scheduler, rank, scheduler.world) for rank in scheduler.ranks]
        scheduler.run_generators([function(comm) for comm in comms])
        return scheduler.cluster_run()


def _copied(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    try:
        return copy.deepcopy((args, kwargs))
    except Exception as error:
        raise TypeError(
            f"VirtualCluster.run gives each rank a copy of the arguments, and one of them cannot "
            f"be copied ({error}): make it inside the function"
        ) from error


class _ComputeClock(TorchDispatchMode):
    """Advances the clock of a rank by each matrix product that it runs."""

    def __init__(self, scheduler: Scheduler, rank: Rank, flops_per_second: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scheduler, self.rank, self.flops_per_second = scheduler, rank, flops_per_second

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.scheduler.threads.stop_if_failed()
        if is_uncounted_product(func):
            with self:  # a composite, such as `linear` without autograd: count its parts
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        seconds = operation_flops(func, args, kwargs, result) / self.flops_per_second
        if seconds:
            part = "backward" if is_backward_running() else "forward"
            self.rank.compute(seconds, self.rank.part or part)
        return result


class VirtualComm(Comm):
    """A rank's connection to the other ranks of the same process."""

    def __init__(self, scheduler: Scheduler, rank: Rank, group: Group) -> None:
        super().__init__(rank.number, group)
        self._scheduler, self._rank = scheduler, rank

    def compute(self, seconds: float, name: str = "forward") -> None:
        """Advance this rank's clock, as a matrix product of that pass does.

        Raises:
            ValueError: If the seconds are negative or without end.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"compute: seconds must be zero or above, got {seconds!r}")
        self._rank.compute(seconds, name)

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Give a name to what this rank computes meanwhile, in place of that of its pass."""
        before, self._rank.part = self._rank.part, name
        try:
            yield
        finally:
            self._rank.part = before

    def on_compute(self, listener: Callable[[float, str], None]) -> None:
        """Call ``listener(seconds, name)`` whenever this rank's clock advances by compute."""
        self._rank.on_compute = listener

    def _start(self, call: Call, tensor: Tensor | None, output: Tensor | None) -> VirtualHandle:
        return self._post(call, PostedCall(tensor, output, self._rank.clock))

    def _post(self, call: Call, posted: PostedCall) -> VirtualHandle:
        self._scheduler.threads.stop_if_failed()
        transfer = self._scheduler.post(self._rank, call, self._group, posted)
        return VirtualHandle(self._scheduler, self._rank, transfer)

    def split(self, colour: int) -> "Comm":
        """Make a group of the ranks that give the same number, in the order of their ranks."""
        handle = self.start_split(colour)
        handle.wait()
        return self.joined(handle)

    def start_split(self, colour: int) -> VirtualHandle:
        """Start to `split`; after the wait for it, `joined` gives the group."""
        return self._post(Call("split"), PostedCall(None, None, self._rank.clock, colour))

    def joined(self, handle: VirtualHandle) -> "VirtualComm":
        """The group that a split has made."""
        posts, number = handle.transfer.posts, handle.transfer.exchange.number
        colour = posts[self._world_rank].colour
        members = tuple(each for each in self._group.members if posts[each].colour == colour)
        group = Group(members, f"{self._group.name}/{number}: {colour}")
        return VirtualComm(self._scheduler, self._rank, group)
