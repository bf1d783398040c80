"""The calls of logged ranks once more, on a virtual cluster of the judge's own.

Messages, bytes, partners, order, waits and seconds are those of the judge's run: of a log it takes
what was passed in, and the seconds of compute. A log is written in the student's process, which
could write anything into it: so what a rank says to have received has to be what the judge's
cluster delivers.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autograder.checking.fact import Fact
from autograder.observers.rank_log import Log
from course_utils.distributed import ClusterRun, Comm, CommError, Handle, VirtualCluster
from course_utils.distributed.call_matching import Call
from course_utils.distributed.cluster import VirtualComm

Start = Callable[[Comm, Any, Any, Any], Handle]
START: Mapping[str, Start] = {
    "all_reduce": lambda comm, tensor, output, peer: comm.all_reduce(output, async_op=True),
    "broadcast": lambda comm, tensor, output, peer: comm.broadcast(output, peer, async_op=True),
    "all_gather": lambda comm, tensor, output, peer: comm.all_gather(output, tensor, async_op=True),
    "reduce_scatter": lambda comm, tensor, output, peer: comm.reduce_scatter(
        output, tensor, async_op=True
    ),
    "send": lambda comm, tensor, output, peer: comm.send(tensor, peer, async_op=True),
    "receive": lambda comm, tensor, output, peer: comm.receive(output, peer, async_op=True),
}
MAX_ENTRIES = 2_000  # of all ranks together; an answer makes some hundreds
IN_PLACE = ("all_reduce", "broadcast")


class Replay(NamedTuple):
    """What logged ranks did on the judge's cluster.

    Attributes:
        run: Its events; of a log that cannot be replayed there are none.
        forged_calls: Calls whose logged result is not what came; one if it cannot be replayed.
    """

    run: ClusterRun
    forged_calls: int


def replay(logs: Sequence[Log], cluster: VirtualCluster) -> Replay:
    """Make the calls of all logs again, each rank its own, on a cluster."""
    nothing = ClusterRun(results=[None] * cluster.num_ranks, events=())
    if sum(map(len, logs)) > MAX_ENTRIES:
        return Replay(nothing, forged_calls=1)
    try:
        with torch._C._DisableTorchDispatch():
            run = cluster.run_generators(lambda comm: _repeat(comm, logs))
    except CommError:
        return Replay(nothing, forged_calls=1)
    return Replay(run, sum(run.results))


def forged(num_calls: int) -> Fact:
    """Calls that are not what their log says of them."""
    return Fact(
        "forged_calls",
        num_calls,
        "calls that did not go over the links as they were logged",
        "Does every number from another rank come through a call of the `comm` that you are given?",
    )


def _repeat(comm: VirtualComm, logs: Sequence[Log]) -> Generator[Handle, None, int]:
    """Do on a rank what its log says; how many calls did not bring what it says.

    What was computed stands in the log.
    """
    groups, handles = [comm], list[Handle]()
    results = list[tuple[Tensor, Tensor]]()
    for entry in logs[comm.rank]:
        if "compute" in entry:
            comm.compute(entry["seconds"], entry["compute"])
        elif "split" in entry:
            group = groups[entry["group"]]
            yield (handle := group.start_split(entry["split"]))
            groups.append(group.joined(handle))
        elif "wait" in entry:
            yield handles[entry["wait"]]
        elif entry["call"] == "barrier":
            handles.append(groups[entry["group"]]._start(Call("barrier"), None, None))
        else:
            output = _output(entry)
            start = START[entry["call"]]
            handles.append(start(groups[entry["group"]], entry["tensor"], output, entry["peer"]))
            if output is not None:
                results.append((output, entry["result"]))
    return sum(not _same(*each) for each in results)


def _output(entry: dict[str, Any]) -> Tensor | None:
    """New memory that a call fills."""
    if entry["call"] == "send":
        return None
    if entry["call"] in IN_PLACE:
        return entry["tensor"].clone()  # type: ignore[no-any-return]
    return torch.empty_like(entry["result"])


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape, type and bytes; nan equals itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    raw, other_raw = (each.flatten().view(torch.uint8) for each in (one, other))
    return torch.equal(raw, other_raw)
