"""How much is live while layers are gone through, with and without recomputation?"""

from collections.abc import Mapping

from course_utils import colours
from course_utils.instruments import MemoryTrace
from course_utils.show.picture import Picture, axes

LINES = (colours.NEUTRAL, colours.ACTIVATIONS, colours.COMPUTE, colours.OPTIMIZER_STATES)


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
    for colour, (name, trace) in zip(LINES, traces.items(), strict=False):
        live = live_in_tensors(trace, tensor_bytes)
        peak = max(live)
        pair.plot(live, color=colour, drawstyle="steps-post", label=name)
        pair.plot([live.index(peak)], [peak], "v", color=colour)
        kept = kept_in_tensors(trace, tensor_bytes)
        told.append(f"{name}: {kept:,.0f} kept by the forward pass, at most {peak:,.0f} live")
    pair.set_xlim(left=0)
    pair.set_ylim(bottom=0)
    pair.set_xlabel("operation")
    pair.set_ylabel("live, in tensors between layers")
    pair.legend(frameon=False, loc="lower center", ncols=2, bbox_to_anchor=(0.5, 1.0))
    return Picture(figure, f"In tensors as large as one between two layers. {'; '.join(told)}.")


def live_in_tensors(trace: MemoryTrace, tensor_bytes: int) -> list[float]:
    """Activations and temporaries live after each operation, over ``tensor_bytes``."""
    lines = (trace.live_bytes[name] for name in ("activations", "temporaries"))
    return [sum(pair) / tensor_bytes for pair in zip(*lines, strict=True)]


def kept_in_tensors(trace: MemoryTrace, tensor_bytes: int) -> float:
    """Activations that are live when the first forward pass is over, over ``tensor_bytes``."""
    stop = next(phase.stop for phase in trace.phases if phase.name == "forward")
    return trace.live_at(stop - 1)["activations"] / tensor_bytes
