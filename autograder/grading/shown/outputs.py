"""Cell outputs that a graded notebook may show: text and PNG pictures, limited in size."""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.checking.verdict import Points, Verdict
from autograder.grading.sandbox.ipython_shell import (
    MAX_CHARACTERS,
    MAX_OUTPUTS,
    MAX_PICTURE_CHARACTERS,
)

PNG = b"\x89PNG\r\n\x1a\n"
TOLD = "verdict"  # in the metadata of an output: what a student is told
STREAMS = ("stdout", "stderr")
MAX_BYTES = 5_000_000
LINE_BYTES = 16  # what a notebook's file adds to each line of text
MAX_PICTURE_PIXELS = 6_000  # of its width and height
OUTPUT_BYTES = 300  # and to each output
TOO_MUCH = f"The rest is left out: a notebook's outputs have {MAX_BYTES // 10**6} MB together.\n"


class Space:
    """The space in a notebook's file that the outputs of all its cells share."""

    def __init__(self) -> None:
        self._left = MAX_BYTES

    def fitting(self, outputs: Sequence[NotebookNode]) -> list[NotebookNode]:
        """The first outputs of a cell, as many as fit; a sentence stands for the others."""
        for count, each in enumerate(outputs):
            text = json.dumps(each)
            self._left -= len(text) + LINE_BYTES * text.count("\\n") + OUTPUT_BYTES
            if self._left < 0:
                return [*outputs[:count], new_output("stream", name="stderr", text=TOO_MUCH)]
        return list(outputs)


def sanitized(outputs: Any) -> list[NotebookNode]:
    """New outputs with what is harmless in those that a sandbox sent; the rest is dropped."""
    entries = outputs if type(outputs) is list else []
    return [each for entry in entries[:MAX_OUTPUTS] for each in _sanitized(entry)]


def of_stopped_cell(how: str) -> list[NotebookNode]:
    """The output of a cell whose process ended while it ran."""
    return [new_output("stream", name="stderr", text=f"This cell was stopped: {how}.\n")]


def of_verdict(verdict: Verdict) -> list[NotebookNode]:
    """What `grade` shows: to students the verdict, to nbgrader the points."""
    points = Points(verdict)
    shown = {"text/plain": repr(points), "text/html": points._repr_html_()}
    told = {TOLD: [verdict.sentence, verdict.hint] if not verdict.passed else []}
    return [new_output("execute_result", data=shown, metadata=told, execution_count=None)]


def told_by(cell: NotebookNode) -> str:
    """What the verdict in a cell says to a student who did not get all points."""
    found = [each.get("metadata", {}).get(TOLD) for each in cell.get("outputs", [])]
    return " ".join(filter(None, next(filter(None, found), [])))


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
    """Whether it is a PNG picture with a size that a browser can show."""
    try:
        start = base64.b64decode(text)[:24]
    except (binascii.Error, ValueError):
        return False
    width, height = (int.from_bytes(start[place : place + 4]) for place in (16, 20))
    return start.startswith(PNG) and max(width, height) <= MAX_PICTURE_PIXELS
