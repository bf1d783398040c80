"""Tables, figures and explorers."""

from course_utils.show.allocator import allocator_levels
from course_utils.show.batch_size import (
    batch_plan,
    batch_schedule,
    noise_estimates,
    noise_over_loss,
    steps_against_examples,
)
from course_utils.show.cluster import cluster_timeline, cluster_timelines
from course_utils.show.data_parallel import (
    all_reduce_over_ranks,
    exposed_over_tokens,
    step_over_bucket_bytes,
    tokens_per_second_over_devices,
)
from course_utils.show.explorer import explorer
from course_utils.show.flops import flop_shares, shares_over_length
from course_utils.show.gradients import gradient_exponents
from course_utils.show.memory_budget import memory_over_length, training_memory
from course_utils.show.memory_over_time import births_and_deaths, memory_timeline, memory_timelines
from course_utils.show.number_formats import (
    facts_of_formats,
    nearest_number,
    ranges_and_spacings,
    running_sums,
)
from course_utils.show.picture import Picture
from course_utils.show.plots import computed_and_measured, same_bytes_two_numbers
from course_utils.show.progress_bar import with_progress
from course_utils.show.recomputation import memory_against_flops, recomputation_over_length
from course_utils.show.records import recorded
from course_utils.show.ring import ring_steps
from course_utils.show.segments import live_tensors
from course_utils.show.try_call import try_it

__all__ = [
    "Picture",
    "all_reduce_over_ranks",
    "allocator_levels",
    "batch_plan",
    "batch_schedule",
    "births_and_deaths",
    "cluster_timeline",
    "cluster_timelines",
    "computed_and_measured",
    "explorer",
    "exposed_over_tokens",
    "facts_of_formats",
    "flop_shares",
    "gradient_exponents",
    "live_tensors",
    "memory_against_flops",
    "memory_over_length",
    "memory_timeline",
    "memory_timelines",
    "nearest_number",
    "noise_estimates",
    "noise_over_loss",
    "ranges_and_spacings",
    "recomputation_over_length",
    "recorded",
    "ring_steps",
    "running_sums",
    "same_bytes_two_numbers",
    "shares_over_length",
    "step_over_bucket_bytes",
    "steps_against_examples",
    "tokens_per_second_over_devices",
    "training_memory",
    "try_it",
    "with_progress",
]
