"""Instruments measure; they never import a formula, so that a measurement can disprove one."""

from course_utils.instruments.flop_count import FlopCount, count_flops
from course_utils.instruments.storage import storage_bytes

__all__ = ["FlopCount", "count_flops", "storage_bytes"]
