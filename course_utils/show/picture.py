"""A figure that displays itself as a PNG, with its caption below and as alternative text."""

import base64
import html
import io
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

DOTS_PER_INCH = 100


@dataclass(frozen=True)
class Picture:
    """A figure with a caption.

    Attributes:
        figure: A matplotlib figure, drawn without pyplot, which would keep global state.
        caption: The message of the figure with its numbers; also its alternative text.
    """

    figure: Figure
    caption: str

    def png(self) -> bytes:
        """The figure as a PNG, the same bytes for the same drawing."""
        buffer = io.BytesIO()
        self.figure.savefig(
            buffer,
            format="png",
            dpi=DOTS_PER_INCH,
            bbox_inches="tight",
            metadata={"Software": None},
        )
        return buffer.getvalue()

    def __repr__(self) -> str:
        """The caption, for pages without pictures."""
        return f"Picture: {self.caption}"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png()).decode()
        caption = html.escape(self.caption)
        return (
            f'<figure style="margin: 0 0 1em"><img alt="{caption}" style="max-width: 100%" '
            f'src="data:image/png;base64,{data}">'
            f'<figcaption style="line-height: 1.4">{caption}</figcaption></figure>'
        )


def axes(width: float = 6.0, height: float = 2.6) -> tuple[Figure, Any]:
    """A new figure and its axes, in the course's style: no frame at the top and right."""
    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax
