"""The trace of PyTorch's profiler, which gives it only as a file."""

import json
import tempfile
from pathlib import Path
from typing import Any, Protocol


class Profiler(Protocol):
    """What has a trace to write: a `torch.profiler.profile` that has stopped."""

    def export_chrome_trace(self, path: str) -> object:
        """Write the trace to a file."""


def trace_of(profiler: Profiler) -> dict[str, Any]:
    """The trace of a profiler that has stopped, which writes it once, and only to a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return trace
