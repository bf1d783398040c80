"""How far is a long cell? A bar on a page that somebody watches, and nothing anywhere else.

>>> list(with_progress([4, 16], "batch sizes"))
[4, 16]
"""

import os
from collections.abc import Iterator, Sequence
from typing import TypeVar

import ipywidgets as widgets
from IPython.display import display

Item = TypeVar("Item")

# Jupyter's server names the notebook here for each kernel of a page; builds, tests and grading
# start kernels without it.
PAGE = "JPY_SESSION_NAME"


def with_progress(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Go through some items with a bar that grows, and goes away when all are done.

    Args:
        items: What takes long.
        what: The word for several of them.
    """
    bar = widgets.IntProgress(max=len(items), layout=widgets.Layout(width="20em"))
    box = widgets.HBox([bar, widgets.Label(f"of {len(items):,} {what}")])
    if PAGE in os.environ:
        display(box)
    try:
        for item in items:
            yield item
            bar.value += 1
    finally:
        box.layout.display = "none"
