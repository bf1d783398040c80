"""A trainer of one's own beside PyTorch's: who does what, and in which line.

The lines on the left are found in the function as it was written; those on the right are read from
the installed PyTorch (BSD-3-Clause licence), never copied into the course.
"""

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from course_utils.instruments.installed_source import installed_lines
from course_utils.instruments.source_lines import OwnLine, line_that_uses
from course_utils.show.torch_source import (
    DDP,
    FSDP,
    REDUCER,
    Quote,
    html_cell,
    html_code,
    html_table,
    quoted,
)

GROUP = f"{FSDP}/_fsdp_param_group.py"
NOT_FOUND = "–"


class Step(NamedTuple):
    """Something that both trainers do.

    Attributes:
        what: In a few words.
        names: One of them is used in the line of one's own that does it.
        quote: PyTorch's lines that do it.
    """

    what: str
    names: Sequence[str]
    quote: Quote


DDP_STEPS = (
    Step(
        "Each parameter has a hook, called when its gradient is complete.",
        ("hooks_on", "register_post_accumulate_grad_hook", "register_hook"),
        Quote(REDUCER, "void autograd_hook(size_t index);"),
    ),
    Step(
        "Backward begins. You call it; DDP is told at the end of forward.",
        ("backward",),
        Quote(DDP, "self.reducer.prepare_for_backward([])"),
    ),
    Step(
        "Is the bucket full? You count bytes, DDP the gradients that are still missing.",
        ("bucket_bytes",),
        Quote(
            REDUCER, "// Number of gradients left to be computed before the bucket is ready to", 3
        ),
    ),
    Step(
        "One flat tensor. You make it to send it; DDP's is there from the start.",
        ("joined", "cat"),
        Quote(REDUCER, "// Gradients of the bucket flattened into a 1-dimensional tensor", 2),
    ),
    Step(
        "Its all-reduce starts.",
        ("all_reduce",),
        Quote(REDUCER, "void all_reduce_bucket(Bucket& bucket);"),
    ),
    Step(
        "Backward is over: wait for every bucket.",
        ("wait",),
        Quote(REDUCER, "void finalize_backward();"),
    ),
    Step(
        "Sums become gradients. Yours are views; DDP copies, unless you ask for views.",
        ("give_back", "grad", "copy_"),
        Quote(REDUCER, "// If gradient_as_bucket_view_ is false, after allreduce buckets,", 3),
    ),
)

FSDP_STEPS = (
    Step(
        "A gather starts, and nobody waits for it yet.",
        ("all_gather",),
        Quote(GROUP, "self._all_gather_result = foreach_all_gather(", 4),
    ),
    Step(
        "Wait for this weight, then ask for the next one.",
        ("wait",),
        Quote(GROUP, "self.unshard(self.unshard_async_op)  # no-op if prefetched", 4),
    ),
    Step(
        "The whole weight goes: you drop its name, FSDP empties its storage.",
        ("del",),
        Quote(f"{FSDP}/_fsdp_param.py", "def free_storage(tensor: torch.Tensor) -> None:", 3),
    ),
    Step(
        "The gradient is scattered, beside what comes next.",
        ("reduce_scatter",),
        Quote(GROUP, ") = foreach_reduce(", 3),
    ),
)


@dataclass(frozen=True)
class SideBySide:
    """The steps of a function beside PyTorch's, as a table for a page."""

    function: Callable[..., Any]
    steps: Sequence[Step]

    def __repr__(self) -> str:
        """Each step with both places, for pages without tables."""
        return "\n".join(
            f"{step.what} {_place(own)} | {installed_lines(*step.quote).place}"
            for step, own in self._rows()
        )

    def _repr_html_(self) -> str:
        whose = "the course's" if self.function.__module__.startswith("course_utils") else "yours"
        head = "".join(html_cell(html.escape(text), "th") for text in ("", whose, "PyTorch's"))
        rows = (
            (
                html.escape(step.what),
                html_code(_place(own), own.text if own else ""),
                quoted(step.quote),
            )
            for step, own in self._rows()
        )
        return html_table(rows, f"<tr>{head}</tr>")

    def _rows(self) -> Iterator[tuple[Step, OwnLine | None]]:
        for step in self.steps:
            yield step, line_that_uses(self.function, *step.names)


def _place(own: OwnLine | None) -> str:
    return f"{own.function}, line {own.line}" if own else NOT_FOUND
