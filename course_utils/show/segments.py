"""Live memory during forward and backward, with and without recomputation."""

from collections.abc import Mapping

from course_utils.instruments import MemoryTrace
from course_utils.show.picture import Picture, axes, legend_above

# Shades from light to dark: segment length is a quantity, not a category.
LINES = ("#8a8a8a", "#c9a5ea", "#9966cc", "#7a45bf")
STYLES = ("--", "-", "-", "-")


def live_tensors(traces: Mapping[str, MemoryTrace], tensor_bytes: int) -> Picture:
    """Activations and temporaries over the operations of a step, in units of one tensor.

    Args:
        traces: At most four traces, by name; each of one forward and one backward pass.
        tensor_bytes: Bytes of the unit, such as the tensor between two layers.

    Raises:
        ValueError: If there are more traces than colours.
    """
    if len(traces) > len(LINES):
        raise ValueError(f"live_tensors draws at most {len(LINES)} traces, got {len(traces)}")
    figure, ax = axes(height=3.6)
    described = []
    for colour, style, (name, trace) in zip(LINES, STYLES, traces.items(), strict=False):
        live = [each / tensor_bytes for each in trace.working_bytes]
        peak = max(live)
        ax.plot(live, style, color=colour, drawstyle="steps-post", label=name)
        ax.plot([live.index(peak)], [peak], "v", color=colour)
        described.append(f"{peak:,.0f} ({name})")
    ax.set(xlim=(0, None), ylim=(0, None))
    ax.set(xlabel="operation", ylabel="live, in u: tensors between two layers")
    legend_above(ax, 4)
    return Picture(
        figure, f"Most live at once, in tensors between two layers: {', '.join(described)}."
    )
