"""Which modules are loaded before any submission is there? None of them may compute at import."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import autograder
import course_utils
from autograder import catalogue

LOADED = (
    (autograder, ("checking", "exercises")),
    (
        course_utils,
        ("configs", "distributed", "formulas", "instruments", "records", "reference", "show"),
    ),
)
# What torch, notebooks and tracebacks load late, at their first use.
LATE = (
    "IPython.core.logger",
    "pygments.formatters.terminal256",
    "stack_data",
    "torch._dynamo",
    "torch.distributed",
    "torch.func",
    "torch.fx",
    "torch.profiler",
    "torch.testing",
    "torch.utils.checkpoint",
    "torch.utils.flop_counter",
    "torch._subclasses.fake_tensor",
    "torch.nn.attention",
    "matplotlib.pyplot",
    "matplotlib_inline.backend_inline",
    "pandas",
    "ipywidgets",
)


def load() -> None:
    """Import the course's rooms and what is used late; what is not installed is left out."""
    for name in (*LATE, *_course_modules()):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if (
                name.startswith(("autograder", "course_utils"))
                or missing.name != name.split(".", maxsplit=1)[0]
            ):
                raise
    catalogue.units()
    for name in autograder.__all__:  # afterwards their homes are gone
        getattr(autograder, name)


def _course_modules() -> Iterator[str]:
    for package, rooms in LOADED:
        for room in rooms:
            place = Path(package.__path__[0], room)
            found = pkgutil.walk_packages([str(place)], f"{package.__name__}.{room}.")
            yield from (each.name for each in found)
