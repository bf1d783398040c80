"""Tables, figures and explorers."""

from course_utils.show.allocator import allocator_levels
from course_utils.show.attention_tiles import blocks_and_traffic, tile_walk
from course_utils.show.bandwidth import bandwidth_over_nodes
from course_utils.show.batch_size import (
    batch_plan,
    batch_schedule,
    learning_rates,
    noise_estimates,
    noise_over_loss,
    steps_against_examples,
)
from course_utils.show.budget import errors_over_hours
from course_utils.show.cluster import cluster_timeline, cluster_timelines
from course_utils.show.collectives import transfer_and_waiting
from course_utils.show.data_parallel import (
    exposed_over_tokens,
    step_over_bucket_bytes,
    tokens_per_second_over_devices,
)
from course_utils.show.expert_chunks import hidden_by_phase
from course_utils.show.explorer import Choice, explorer
from course_utils.show.flops import flop_shares, shares_over_length
from course_utils.show.gradients import gradient_exponents
from course_utils.show.lanes import trace_lanes
from course_utils.show.layer_diagram import layer_diagram, layer_explorer
from course_utils.show.memory_budget import memory_over_length, training_memory
from course_utils.show.memory_over_time import births_and_deaths, memory_timeline, memory_timelines
from course_utils.show.number_formats import (
    facts_of_formats,
    nearest_number,
    ranges_and_spacings,
    running_sums,
)
from course_utils.show.pace import extra_by_stages, pace_by_work
from course_utils.show.picture import Picture
from course_utils.show.pipeline import draw_schedule, pipeline_timeline
from course_utils.show.plan import errors_by_size, plans_side_by_side, rates_over_devices
from course_utils.show.plots import computed_and_measured, same_bytes_two_numbers
from course_utils.show.progress_bar import with_progress
from course_utils.show.recomputation import memory_against_flops, recomputation_over_length
from course_utils.show.recorded_memory import recorded_timelines
from course_utils.show.ring import ring_steps
from course_utils.show.roofline import device_roof, rooflines, steps_on_roofline
from course_utils.show.segments import live_tensors
from course_utils.show.serving import (
    designs_of_llama,
    draft_overlap,
    paged_blocks,
    rates_over_batch,
)
from course_utils.show.serving_rates import speed_of_each
from course_utils.show.sharding import kept_and_sent
from course_utils.show.try_call import try_it
