"""Cell outputs that a graded notebook may show: text and PNG pictures, limited in size."""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.checking.verdict import Verdict
from autograder.grading.sandbox.ipython_shell import (
    MAX_CHARACTERS,
    MAX_OUTPUTS,
    MAX_PICTURE_CHARACTERS,
)

PNG = b"\x89PNG\r\n\x1a\n"
STREAMS = ("stdout", "stderr")


def sanitized(outputs: Any) -> list[NotebookNode]:
    """New outputs with what is harmless in those that a sandbox sent; the rest is dropped."""
    entries = outputs if type(outputs) is list else []
    return [each for entry in entries[:MAX_OUTPUTS] for each in _sanitized(entry)]


def of_stopped_cell(how: str) -> list[NotebookNode]:
    """The output of a cell whose process ended while it ran."""
    return [new_output("stream", name="stderr", text=f"This cell was stopped: {how}.\n")]


def of_verdict(verdict: Verdict) -> list[NotebookNode]:
    """The verdict as students read it, and the points as nbgrader reads them."""
    shown = {"text/plain": str(verdict), "text/html": verdict._repr_html_()}
    points = {"text/plain": repr(float(verdict.points))}
    return [
        new_output("display_data", data=shown),
        new_output("execute_result", data=points, execution_count=None),
    ]


def _sanitized(entry: Any) -> Iterator[NotebookNode]:
    match entry:
        case {"output_type": "stream", "name": str(name), "text": str(text)} if name in STREAMS:
            yield new_output("stream", name=name, text=text[: 2 * MAX_CHARACTERS])
        case {"output_type": "error", "ename": str(name), "evalue": str(value), "traceback": lines}:
            words = [line[:MAX_CHARACTERS] for line in lines if type(line) is str]
            yield new_output(
                "error", ename=name[:200], evalue=value[:MAX_CHARACTERS], traceback=words[:50]
            )
        case {"output_type": "display_data" | "execute_result", "data": dict(data)}:
            if shown := dict(_shown(data)):
                yield new_output("display_data", data=shown)


def _shown(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    text, picture = data.get("text/plain"), data.get("image/png")
    if type(text) is str:
        yield "text/plain", text[:MAX_CHARACTERS]
    if type(picture) is str and len(picture) <= MAX_PICTURE_CHARACTERS and _is_png(picture):
        yield "image/png", picture


def _is_png(text: str) -> bool:
    try:
        return base64.b64decode(text).startswith(PNG)
    except (binascii.Error, ValueError):
        return False
