"""Instruments measure; they never import a formula, so that a measurement can disprove one."""

from course_utils.instruments.achieved import copy_bytes_per_second, matmul_flops_per_second
from course_utils.instruments.allocator_history import Mark, PhaseStart, read_history
from course_utils.instruments.allocator_recording import trace_allocator
from course_utils.instruments.cluster import VirtualCluster
from course_utils.instruments.cluster_log import ClusterRun, Event
from course_utils.instruments.comm import Comm, Handle
from course_utils.instruments.device_memory import PeakMemory, measure_peak
from course_utils.instruments.fake import fake_tensors
from course_utils.instruments.flop_count import FlopCount, count_flops
from course_utils.instruments.links import Link, Network
from course_utils.instruments.matching import (
    CommError,
    DeadlockError,
    MismatchError,
    RankError,
    TimeLimitError,
)
from course_utils.instruments.memory_trace import MemoryTrace, Phase, TracedStorage
from course_utils.instruments.no_answer import NobodyAnswers
from course_utils.instruments.overlap import Overlap, measure_overlap
from course_utils.instruments.patterns import numbers_of
from course_utils.instruments.profiling import Profile, profile
from course_utils.instruments.ranges import named_range
from course_utils.instruments.ranks import run_ranks
from course_utils.instruments.saved_bytes import SavedBytes, SavedTensor, count_saved_bytes
from course_utils.instruments.storage import storage_bytes
from course_utils.instruments.timing import Timing, time_call
from course_utils.instruments.torch_comm import torch_comm
from course_utils.instruments.tracing import trace_memory

__all__ = [
    "ClusterRun",
    "Comm",
    "CommError",
    "DeadlockError",
    "Event",
    "FlopCount",
    "Handle",
    "Link",
    "Mark",
    "MemoryTrace",
    "MismatchError",
    "Network",
    "NobodyAnswers",
    "Overlap",
    "PeakMemory",
    "Phase",
    "PhaseStart",
    "Profile",
    "RankError",
    "SavedBytes",
    "SavedTensor",
    "TimeLimitError",
    "Timing",
    "TracedStorage",
    "VirtualCluster",
    "copy_bytes_per_second",
    "count_flops",
    "count_saved_bytes",
    "fake_tensors",
    "matmul_flops_per_second",
    "measure_overlap",
    "measure_peak",
    "named_range",
    "numbers_of",
    "profile",
    "read_history",
    "run_ranks",
    "storage_bytes",
    "time_call",
    "torch_comm",
    "trace_allocator",
    "trace_memory",
]
