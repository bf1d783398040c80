"""Over how many devices is a run spread, and how?

    >>> num_devices(ParallelLayout(data_parallel_size=4, tensor_parallel_size=2))
    8

The letters of the literature: d data, t tensor, p pipeline, c context parallel degree.
"""

from dataclasses import dataclass

from course_utils.configs.validation import require_positive


@dataclass(frozen=True, kw_only=True)
class ParallelLayout:
    """Degrees of parallelism; all ones is a run on one device.

    Attributes:
        data_parallel_size: Replicas d that see different sequences.
        tensor_parallel_size: Devices t that share each matrix.
        pipeline_parallel_size: Groups p that hold different layers.
        context_parallel_size: Devices c that share each sequence.
    """

    data_parallel_size: int = 1
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    context_parallel_size: int = 1

    def __post_init__(self) -> None:
        """Reject degrees that make no sense."""
        require_positive("ParallelLayout", **vars(self))


def num_devices(layout: ParallelLayout) -> int:
    """Devices of the whole run: ``d t p c``."""
    replica = layout.tensor_parallel_size * layout.pipeline_parallel_size
    return layout.data_parallel_size * replica * layout.context_parallel_size
