"""How much is live while layers are gone through, with and without recomputation?"""

from collections.abc import Mapping

from course_utils.instruments import MemoryTrace
from course_utils.show.picture import Picture, axes

# One colour, from light to dark: a length of segments is no category.
LINES = ("#9a9a9a", "#bd93dd", "#7f4fb5", "#3b0f70")
STYLES = ("--", "-", "-", "-")


def live_tensors(traces: Mapping[str, MemoryTrace], tensor_bytes: int) -> Picture:
    """Activations and temporaries over the operations of a step, counted in tensors of one size.

    Args:
        traces: At most four, by name; each of one forward and one backward pass.
        tensor_bytes: Bytes of the tensor that counts as one, such as one between two layers.

    Raises:
        ValueError: If there are more traces than colours.
    """
    if len(traces) > len(LINES):
        raise ValueError(f"live_tensors draws at most {len(LINES)} traces, got {len(traces)}")
    figure, pair = axes(height=3.2)
    told = []
    for colour, style, (name, trace) in zip(LINES, STYLES, traces.items(), strict=False):
        live = [each / tensor_bytes for each in trace.working_bytes]
        peak, kept = max(live), trace.kept_bytes / tensor_bytes
        pair.plot(live, style, color=colour, drawstyle="steps-post", label=name)
        pair.plot([live.index(peak)], [peak], "v", color=colour)
        told.append(f"{name}: {kept:,.0f} kept by the forward pass, at most {peak:,.0f} live")
    pair.set_xlim(left=0)
    pair.set_ylim(bottom=0)
    pair.set_xlabel("operation")
    pair.set_ylabel("live, in u")
    pair.legend(frameon=False, loc="lower center", ncols=2, bbox_to_anchor=(0.5, 1.0))
    return Picture(figure, f"In u, one tensor between two layers. {'; '.join(told)}.")
