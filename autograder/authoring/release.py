"""How does an instructor notebook become what students get?

By the very preprocessors that `nbgrader generate_assignment` runs, with the course's own
configuration and without a gradebook; a test holds the two against each other byte for byte.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    LockCells,
)
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.authoring import master
from autograder.authoring.errors import MasterError

STEPS = (
    LockCells,
    ClearSolutions,
    ClearOutput,
    CheckCellMetadata,
    ComputeChecksums,
    ClearHiddenTests,
    ClearMarkScheme,
    ComputeChecksums,
    CheckCellMetadata,
)
TELLING_CHARACTERS = 8


def release(instructor: NotebookNode, root: Path) -> NotebookNode:
    """The student's notebook: no solution, no hidden test, no output.

    Raises:
        MasterError: If something of a solution or a hidden test is left in it.
    """
    config: Config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    notebook, resources = deepcopy(instructor), ResourcesDict()
    for step in STEPS:
        notebook, resources = step(config=config).preprocess(notebook, resources)
    if leaks := list(find_leaks(instructor, notebook)):
        raise MasterError("the release gives something away:\n  - " + "\n  - ".join(leaks))
    return notebook


def find_leaks(instructor: NotebookNode, released: NotebookNode) -> Iterator[str]:
    """Everything in a release that students must not see, in words."""
    secrets = [*master.solution_bodies(instructor), *master.hidden_tests(instructor)]
    lines = {line for secret in secrets for line in _telling_lines(secret)}
    for cell in released.cells:
        text = _squeezed(cell.source)
        yield from (f"{cell.id} holds the line `{line}`" for line in lines if line in text)
        yield from (f"{cell.id} holds {word}" for word in master.MARKERS if word in cell.source)
        if cell.get("outputs"):
            yield f"{cell.id} holds an output"
    if "jupytext" in released.metadata:
        yield "the notebook is paired with a text file"


def _telling_lines(secret: str) -> Iterator[str]:
    """Lines that would help: long enough, no bare `return name`, `else:`, `call()`, decorator."""
    for line in map(_squeezed, secret.split("\n")):
        plain = re.fullmatch(r"(return)?\w*:?|@\w+|#.*|[\w.]+\(\)", line)
        if len(line) >= TELLING_CHARACTERS and not plain:
            yield line


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)
