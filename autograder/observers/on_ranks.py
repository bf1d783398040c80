"""A student's function on the ranks of a virtual cluster, and what it did there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from autograder.checking.fact import Fact
from autograder.checking.time_limit import Stopped
from autograder.observers.rank_log import Recorded, record
from course_utils.distributed import (
    ClusterRun,
    Link,
    Network,
    RankError,
    TimeLimitError,
    VirtualCluster,
)

# A number in float64 takes as long as a message's latency, so that both show.
LATENCY_SECONDS, BYTES_PER_SECOND = 1e-6, 8e6
FLOAT64_BYTES = 8
LIMIT_SECONDS = 8.0  # less than a check allows, so that the cluster can stop its ranks

NETWORK = Network(
    inside=Link(latency_seconds=LATENCY_SECONDS, bandwidth_bytes_per_second=BYTES_PER_SECOND)
)


WHICH_TENSOR = (
    "The number of calls is right. Which tensor goes into each of them, and how many numbers of "
    "which precision does it hold?"
)


def cluster_of(num_ranks: int) -> VirtualCluster:
    """The cluster on which `record_on_ranks` runs a function, for its replay."""
    return VirtualCluster(num_ranks, network=NETWORK)


def record_on_ranks(num_ranks: int, function: Callable[..., Any], *args: Any) -> Recorded:
    """Run a function on ranks and log what they do; raise a rank's own error unchanged.

    Raises:
        Stopped: If the ranks do not finish in time, so that no other case is tried.
    """
    return record_on_cluster(cluster_of(num_ranks), function, *args)


def record_on_cluster(
    cluster: VirtualCluster, function: Callable[..., Any], *args: Any
) -> Recorded:
    """Run and log a function on the ranks of a given cluster, as `record_on_ranks` does.

    Raises:
        Stopped: If the ranks do not finish in time, so that no other case is tried.
    """
    with _own_errors():
        return record(replace(cluster, limit_seconds=LIMIT_SECONDS), function, *args)


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise the error of a rank as the rank raised it."""
    try:
        yield
    except RankError as error:
        raise error.__cause__ or error from None
    except TimeLimitError as error:
        raise Stopped from error


def most_calls(run: ClusterRun) -> int:
    """Calls that communicate, of the rank that makes the most."""
    return max(len(run.communications(rank)) for rank in range(run.num_ranks))


def calls_made(num_calls: int, ask: str) -> Fact:
    """Calls that communicate, as an exercise counts them."""
    return Fact("calls", num_calls, "calls to the other ranks", ask)


def bytes_in_calls(run: ClusterRun, ask: str = WHICH_TENSOR) -> Fact:
    """Bytes of the calls of rank 0, compared where their number is right."""
    num_bytes = sum(each.num_bytes for each in run.communications())
    return Fact("bytes", num_bytes, "bytes in rank 0's calls", ask)
