"""Questions about PyTorch's data parallelism, each beside the lines that answer it.

The lines are read from the installed PyTorch (BSD-3-Clause licence), never copied into the course.
"""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from course_utils.instruments.installed_source import installed_lines

DDP = "nn/parallel/distributed.py"
REDUCER = "include/torch/csrc/distributed/c10d/reducer.hpp"
HOOKS = "distributed/algorithms/ddp_comm_hooks/default_hooks.py"
FSDP = "distributed/fsdp/_fully_shard"


class Quote(NamedTuple):
    """Where lines of PyTorch stand.

    Attributes:
        file: Path inside the package `torch`.
        first: First line of them.
        num_lines: How many are shown.
    """

    file: str
    first: str
    num_lines: int = 1


class Excerpt(NamedTuple):
    """A question, the answer in words, and where PyTorch answers it.

    Attributes:
        question: What a reader asks.
        answer: In one or two short sentences.
        quote: PyTorch's lines.
    """

    question: str
    answer: str
    quote: Quote


DDP_SOURCE = (
    Excerpt(
        "Which gradients go first?",
        "Those of the parameters defined last: a guess at the order of backward.",
        Quote(DDP, "list(reversed(bucket_indices)),"),
    ),
    Excerpt(
        "Why is the first bucket small?",
        "Something leaves early. With bucket_cap_mb set, all limits are equal.",
        Quote(REDUCER, "constexpr int kDefaultFirstBucketBytes = 1024 * 1024;", 2),
    ),
    Excerpt(
        "Which buckets has the first step?",
        "One for all, unless unused parameters are looked for.",
        Quote(DDP, "if static_graph or not find_unused_parameters:", 2),
    ),
    Excerpt(
        "When are buckets rebuilt?",
        "Once, before the second forward pass, in the order in which gradients arrived.",
        Quote(REDUCER, "inline bool should_rebuild_buckets() const {", 3),
    ),
    Excerpt(
        "Where is the division?",
        "Before the all-reduce: as a gradient enters its bucket (mul_out), or in the hook.",
        Quote(HOOKS, "# Apply the division first to avoid overflow, especially for FP16.", 3),
    ),
    Excerpt(
        "What does no_sync do to the hooks?",
        "They stay. Nothing prepares the reducer for backward, so they do nothing.",
        Quote(
            REDUCER, "// If they don't, and wish to accumulate gradients before reducing them,", 3
        ),
    ),
    Excerpt(
        "What does find_unused_parameters cost?",
        "A walk through the graph in each step, an all-reduce of which parameters were used, and "
        "buckets that are never rebuilt.",
        Quote(DDP, "find_unused_parameters (bool): Traverse the autograd graph from all", 3),
    ),
    Excerpt(
        "What do bucket views save?",
        "One set of gradients, and the copies to and from the buckets.",
        Quote(DDP, "buckets. This can reduce peak memory usage, where the", 3),
    ),
    Excerpt(
        "What does a comm hook get?",
        "A full bucket, not yet divided. It returns a future of the tensor to copy back.",
        Quote(
            DDP,
            "Grad bucket's tensors will not be predivided by world_size. User is responsible",
            2,
        ),
    ),
    Excerpt(
        "What if a parameter gets no gradient?",
        "Its bucket never fills, and the next forward pass raises an error.",
        Quote(
            REDUCER, "// Number of gradients left to be computed before the bucket is ready to", 3
        ),
    ),
    Excerpt(
        "Why must ranks agree on the order?",
        "Calls pair up by their order alone. At the rebuilding, all take rank 0's.",
        Quote(
            REDUCER,
            "// as the corresponding gradients are computed (triggered by autograd hooks),",
            3,
        ),
    ),
)

FSDP_SOURCE = (
    Excerpt(
        "What travels together?",
        "A group: what one call of fully_shard finds in a module, less what earlier calls took.",
        Quote(
            f"{FSDP}/_fully_shard.py",
            "class. Calling :meth:`fully_shard` on ``module`` constructs one group that",
            3,
        ),
    ),
    Excerpt(
        "How many calls has a group?",
        "One gather of all its parameters before a use, one scatter of all its gradients.",
        Quote(
            f"{FSDP}/_fully_shard.py",
            ":meth:`fully_shard` should be called bottom-up on your model. Each group's",
            3,
        ),
    ),
    Excerpt(
        "How is a parameter cut?",
        "Each by its first dimension, not as one flat tensor of all.",
        Quote(
            f"{FSDP}/_fsdp_param.py",
            "chunks = _chunk_with_empty(param_data, shard_world_size, dim=shard_dim)",
            2,
        ),
    ),
    Excerpt(
        "Is every group freed after forward?",
        "All but the root's, which backward needs first.",
        Quote(
            f"{FSDP}/_fully_shard.py",
            "- If ``None``, it is set to ``True`` for non-root modules and ``False``",
            2,
        ),
    ),
)


@dataclass(frozen=True)
class Excerpts:
    """Excerpts as a table for a page."""

    excerpts: Sequence[Excerpt]

    def __repr__(self) -> str:
        """Question, place and answer of each, for pages without tables."""
        places = [installed_lines(*each.quote) for each in self.excerpts]
        return "\n".join(
            f"{question} {answer} ({lines.file}:{lines.line})"
            for (question, answer, _), lines in zip(self.excerpts, places, strict=True)
        )

    def _repr_html_(self) -> str:
        return html_table(
            (f"<strong>{html.escape(question)}</strong><br>{html.escape(answer)}", quoted(quote))
            for question, answer, quote in self.excerpts
        )


def html_table(rows: Iterable[Sequence[str]], head: str = "") -> str:
    """Rows of cells below a head, and whose the lines on the right are."""
    cells = ("".join(map(html_cell, row)) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    licence = f"PyTorch {torch.__version__.split('+')[0]}, BSD-3-Clause licence."
    return f"<table>{head}{body}</table><p>{licence}</p>"


def html_cell(content: str, tag: str = "td") -> str:
    """A cell whose content begins at the top left."""
    return f'<{tag} style="text-align: left; vertical-align: top">{content}</{tag}>'


def quoted(quote: Quote) -> str:
    """Lines of PyTorch as they are installed, and where they stand."""
    lines = installed_lines(*quote)
    return html_code(lines.place, lines.text)


def html_code(place: str, text: str) -> str:
    """Lines of code, and where they stand."""
    return f"<em>{html.escape(place)}</em><pre>{html.escape(text)}</pre>"
