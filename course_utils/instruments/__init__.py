"""Instruments measure; they never import a formula, so that a measurement can disprove one."""

from course_utils.instruments.allocator_history import Mark, PhaseStart, read_history
from course_utils.instruments.allocator_recording import trace_allocator
from course_utils.instruments.bit_patterns import numbers_of
from course_utils.instruments.device_memory import PeakMemory, measure_peak
from course_utils.instruments.fake import fake_tensors
from course_utils.instruments.flop_count import FlopCount, count_flops
from course_utils.instruments.memory_trace import MemoryTrace, Phase, TracedStorage
from course_utils.instruments.memory_tracer import trace_memory
from course_utils.instruments.moved_bytes import MovedBytes, Operation, Traffic, count_bytes
from course_utils.instruments.pipeline import PassSeconds, PipelineRun, simulate_pipeline
from course_utils.instruments.process_memory import ProcessGrowth, watch_process
from course_utils.instruments.profiling import Profile, named_range, profile
from course_utils.instruments.roofline import Roofline, fastest_seconds, measure_roofline
from course_utils.instruments.saved_bytes import SavedBytes, SavedTensor, count_saved_bytes
from course_utils.instruments.storage import storage_bytes
from course_utils.instruments.timing import Timing, time_call
from course_utils.instruments.two_level_memory import Move, OutOfFastMemory, TwoLevelMemory
