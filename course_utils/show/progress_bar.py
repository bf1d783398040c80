"""A progress bar for long cells: on a page in JupyterLab, and nowhere else.

>>> list(with_progress([4, 16], "batch sizes"))
[4, 16]
"""

import os
from collections.abc import Iterator, Sequence
from typing import TypeVar

import ipywidgets as widgets
from IPython.display import display

Item = TypeVar("Item")

# Jupyter's server sets this to the notebook's name for the kernel of a page; builds, tests and
# grading start kernels without it.
PAGE = "JPY_SESSION_NAME"


def with_progress(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Iterate over items with a progress bar, which disappears at the end.

    Args:
        items: Items that take long to process.
        what: Their name in the plural.
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
