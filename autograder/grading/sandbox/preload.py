"""Import everything that a submission may need; no module may compute at import."""

import importlib
import pkgutil
from collections.abc import Iterator

import autograder
import course_utils
from autograder import catalogue, checking

COMMAND = "course_utils.torchrun"  # no notebook uses it
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
    """Import the course's modules and what others import late."""
    for name in (*LATE, *_course_modules()):
        importlib.import_module(name)
    catalogue.units()
    for name in autograder.__all__:  # resolve them now: later their modules are unloaded
        getattr(autograder, name)


def _course_modules() -> Iterator[str]:
    for package in (checking, course_utils):
        found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        yield from (each.name for each in found if not each.name.startswith(COMMAND))
