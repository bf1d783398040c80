"""Import everything that a submission may need; no module may compute at import."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import autograder
import course_utils
from autograder import catalogue

OF_COURSE_UTILS = (
    "configs",
    "distributed",
    "formulas",
    "instruments",
    "planner",
    "records",
    "reference",
    "show",
)
LOADED = ((autograder, ("checking",)), (course_utils, OF_COURSE_UTILS))
# What torch, notebooks and tracebacks import late, at their first use.
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
    """Import the course's modules and what others import late, as far as it is installed."""
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
    for name in autograder.__all__:  # resolve them now: later their modules are unloaded
        getattr(autograder, name)


def _course_modules() -> Iterator[str]:
    for package, names in LOADED:
        for name in names:
            folder = Path(package.__path__[0], name)
            found = pkgutil.walk_packages([str(folder)], f"{package.__name__}.{name}.")
            yield from (each.name for each in found)
