"""An IPython shell that runs cells as a notebook does and limits the size of their outputs."""

import ast
import contextlib
import io
import traceback
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from autograder.checking.bounded_call import NOT_STUDENTS
from autograder.checking.time_limit import Stopped
from autograder.grading.sandbox.kept_code import NotHereError

STOPPED = "This cell did not come to an end in its time and was stopped."
MAX_CHARACTERS = 50_000
MAX_OUTPUTS = 100
MAX_PICTURE_CHARACTERS = 1_000_000  # no longer string crosses
MAX_TOTAL_CHARACTERS = 5_000_000
SHOWN = {"text/plain": MAX_CHARACTERS, "image/png": MAX_PICTURE_CHARACTERS}

Output = dict[str, Any]


class Outputs:
    """The outputs of one cell; those beyond a limit are dropped."""

    def __init__(self) -> None:
        self.kept: list[Output] = []
        self._space_left = MAX_TOTAL_CHARACTERS

    def add(self, output: Output) -> None:
        """Keep one more output, up to the limits."""
        self._space_left -= _num_characters(output)
        if len(self.kept) < MAX_OUTPUTS and self._space_left >= 0:
            self.kept.append(output)

    def add_data(self, kind: str, data: dict[str, Any]) -> None:
        """Keep the text and the picture of something displayed."""
        shown = {
            form: data[form]
            for form, most in SHOWN.items()
            if type(data.get(form)) is str and len(data[form]) <= most
        }
        if shown:
            self.add({"output_type": kind, "metadata": {}, "data": shown})


class Stream(io.TextIOBase):
    """A stream that keeps the first characters written to it."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._space_left = MAX_CHARACTERS
        self._left_out = 0

    def write(self, text: str) -> int:
        """Keep what fits."""
        part = str(text)[: self._space_left]
        if part:
            self._parts.append(part)
        self._space_left -= len(part)
        self._left_out += len(text) - len(part)
        return len(text)

    def text(self) -> str:
        """What was kept, and how much was dropped."""
        more = f"\n({self._left_out:,} more characters)" if self._left_out else ""
        return "".join(self._parts) + more


class _Publisher(DisplayPublisher):
    def publish(self, data: dict[str, Any], *arguments: Any, **named: Any) -> None:
        shell().outputs.add_data("display_data", data)


class _Hook(DisplayHook):
    def write_output_prompt(self) -> None:
        """Do nothing: the notebook numbers its cells."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        shell().outputs.add_data("execute_result", format_dict)

    def finish_displayhook(self) -> None:
        """Do nothing: no stream was written to."""


class Shell(InteractiveShell):
    """IPython without a terminal, a history file or an editor."""

    display_pub_class = Type(_Publisher)
    displayhook_class = Type(_Hook)

    def __init__(self, **named: Any) -> None:
        self.outputs, self._misses = Outputs(), False
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        super().__init__(config=config, **named)  # type: ignore[no-untyped-call]
        self.enable_matplotlib("inline")  # type: ignore[no-untyped-call]

    def run(self, source: str) -> list[Output]:
        """Run one cell and give its outputs as a notebook keeps them."""
        self.outputs = Outputs()
        printed, warned = Stream(), Stream()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(warned):
            try:
                self._run_all(source)
            except Stopped as second:  # raised while the first one was reported
                self._showtraceback(Stopped, second, [])
        streams = [
            {"output_type": "stream", "name": name, "text": stream.text()}
            for name, stream in (("stdout", printed), ("stderr", warned))
            if stream.text()
        ]
        return streams + self.outputs.kept

    def _run_all(self, source: str) -> None:
        """Run a cell; once one has called what is not here, an error ends its statement alone.

        So an experiment above an answer, in its cell or another one, does not cost the answer.
        """
        while source:
            result = self.run_cell(source, store_history=True)  # type: ignore[no-untyped-call]
            error = result.error_in_exec
            self._misses = self._misses or isinstance(error, NotHereError)
            goes_on = self._misses and isinstance(error, Exception)
            lines = self.transform_cell(source) if goes_on else ""  # type: ignore[no-untyped-call]
            source = _below(lines, error) if goes_on else ""

    def enable_gui(self, gui: str | None = None) -> None:
        """No windows here."""

    def _showtraceback(self, etype: Any, evalue: BaseException, stb: list[str]) -> None:
        shown = [STOPPED] if etype is Stopped else stb[-50:]
        lines = [str(line)[:MAX_CHARACTERS] for line in shown]
        error = {"ename": str(etype.__name__)[:200], "evalue": _words(evalue), "traceback": lines}
        self.outputs.add({"output_type": "error", **error})


def _below(source: str, error: BaseException) -> str:
    """The statements of a cell below the one that raised an error."""
    frames = traceback.walk_tb(error.__traceback__)
    cells = (n for frame, n in frames if not frame.f_code.co_filename.startswith(NOT_STUDENTS))
    line = next(cells, 0)
    statements = ast.parse(source).body if line else []
    first = (min([e.lineno, *(d.lineno for d in _decorators(e))]) for e in statements)
    start = next((n for n in first if n > line), 0)
    return "\n".join(source.splitlines()[start - 1 :]) if start else ""


def _decorators(statement: ast.stmt) -> list[ast.expr]:
    return getattr(statement, "decorator_list", [])


def _num_characters(value: Any) -> int:
    """How many characters the texts in an output have."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value
    return sum(map(_num_characters, parts))


def _words(error: BaseException) -> str:
    try:
        return str(error)[:MAX_CHARACTERS]
    except Exception:
        return "(its message cannot be shown)"


def shell() -> Shell:
    """The one shell of this process."""
    one: Shell = Shell.instance()
    return one
