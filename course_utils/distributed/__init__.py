"""Ranks that talk to each other: on a virtual clock, in processes, or under torchrun."""

from course_utils.distributed.call_matching import (
    CommError,
    DeadlockError,
    MismatchError,
    RankError,
    TimeLimitError,
)
from course_utils.distributed.cluster import VirtualCluster
from course_utils.distributed.cluster_run import ClusterRun, Event
from course_utils.distributed.comm import Comm, Handle
from course_utils.distributed.links import Link, Network
from course_utils.distributed.null_comm import NullComm
from course_utils.distributed.ranks import run_ranks
