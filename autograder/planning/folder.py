"""`work/planner`: the functions of a student's plan, a package that can be imported.

Each function whose check passed lies there in a module of its own name. What is missing is taken
from the course when the package is imported, and named in `FROM_THE_COURSE`; it is never written.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autograder import catalogue, progress_file
from autograder.files import write_whole
from autograder.planning.function_source import NotPortable, module_source
from course_utils.planner import COURSE_FUNCTIONS, Mission, Report, course_function

NAME = "planner"
FRONT = '''\
"""The functions of your plan: yours where their checks passed, the course's where not.

In a Python that starts in this folder's parent: `from planner import report, state_bytes`.
"""

from autograder.planning.folder import fill_in, own_report
from course_utils.planner import MISSION, Mission, Report

FROM_THE_COURSE = fill_in(__name__)


def report(mission: Mission = MISSION) -> Report:
    """What your functions say of a mission: another model, your own machine, another deadline."""
    return own_report(__name__, mission)
'''


def find() -> Path | None:
    """The folder of the plan in the work folder, or None outside of one."""
    progress = progress_file.find()
    return progress.with_name(NAME) if progress else None


def add_passing(namespace: Mapping[str, Any]) -> dict[str, str]:
    """Write each function of the plan whose check passed and that a notebook has now.

    Returns:
        For each that could not be written, why.
    """
    folder, refused = find(), {}
    for name in passing(namespace):
        try:
            source = module_source(name, namespace)
            if folder is not None:
                write_whole(folder / "__init__.py", FRONT)
                write_whole(folder / f"{name}.py", source)
        except NotPortable as error:
            refused[name] = str(error)
        except OSError as error:
            refused[name] = f"{folder} cannot be written ({error.strerror})"
    return refused


def own_functions() -> dict[str, Callable[..., Any]]:
    """The functions that lie in the folder and can be imported, by name."""
    folder = find()
    files = sorted(folder.glob("*.py")) if folder else []
    return {
        file.stem: function
        for file in files
        if file.stem in COURSE_FUNCTIONS and (function := _loaded(file)) is not None
    }


def fill_in(package: str) -> tuple[str, ...]:
    """Give a package the functions of the plan; the names of those taken from the course."""
    front = sys.modules[package]
    here = Path(str(front.__file__)).parent
    own = {name: _loaded(here / f"{name}.py") for name in COURSE_FUNCTIONS}
    for name, function in own.items():
        setattr(front, name, function or course_function(name))
    return tuple(name for name, function in own.items() if function is None)


def own_report(package: str, mission: Mission) -> Report:
    """What the functions of a package say of a mission, and which of them are the course's."""
    front = sys.modules[package]
    own = [name for name in COURSE_FUNCTIONS if name not in front.FROM_THE_COURSE]
    return Report.of(mission, {name: getattr(front, name) for name in own})


def passing(namespace: Mapping[str, Any]) -> list[str]:
    """Names of the plan's functions that a notebook has, and whose last check gave all points."""
    remembered = progress_file.load()["exercises"]
    return [
        item.function
        for unit in catalogue.units()
        for item in unit.exercises
        if item.function in COURSE_FUNCTIONS
        and item.function in namespace
        and remembered.get(item.id, {}).get("points") == item.points
    ]


def _loaded(file: Path) -> Callable[..., Any] | None:
    """The function of a module's name; None where it cannot be had."""
    if not file.exists():
        return None
    spec = importlib.util.spec_from_file_location(f"{NAME}.{file.stem}", file)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        print(f"{file} cannot be imported ({type(error).__name__}: {error}); the course's is used.")
        return None
    function: Callable[..., Any] | None = getattr(module, file.stem, None)
    return function
