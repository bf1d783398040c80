"""`make planner`: a student's plan as a package of its own, which needs nothing of the course.

Their functions come with the course's for what is missing. All that the plan reads of
`course_utils` is copied under another name; what a function of theirs imports beside that becomes a
dependency.
"""

import ast
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions
from pathlib import Path

import course_utils
from autograder.commands import ROOT, CommandError
from course_utils.planner import COURSE_FUNCTIONS

NAME = "my_planner"
COURSE = Path(str(course_utils.__file__)).parent
ROOMS = ("configs", "formulas", "planner", "records")  # all that a plan reads; pure Python
WORD = re.compile(r"\bcourse_utils\b")
FRONT = '''\
"""A plan for training a language model: does it fit, how long does it take, what does it cost?

    >>> from my_planner import MISSION, report
    >>> print(report(MISSION))  # doctest: +SKIP

A `Mission` holds a model's sizes, a machine and a number of tokens; `dataclasses.replace` changes
one. `OWN` names the functions that were written by the owner of this package.
"""

from my_planner.course.configs import Device, Machine, ModelConfig, device, machine_of, preset
from my_planner.course.planner import MISSION, Mission, Report
{imports}
OWN = {{{own}}}


def report(mission: Mission = MISSION) -> Report:
    """What these functions say of a mission, with those of the course for what is missing."""
    return Report.of(mission, OWN)
'''
PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "my-planner"
version = "1.0"
description = "A plan for training a language model: memory, days, cost"
readme = "README.md"
license = "MIT"
requires-python = ">=3.11"
dependencies = [{dependencies}]

[tool.setuptools.package-data]
"my_planner.course" = ["records/*.csv"]
"""
README = """\
# A planner of one's own

Does a model fit on some devices, how many days does a run take, what does it cost, and what would
change that most? `pip install .`, then

    from dataclasses import replace
    from my_planner import MISSION, machine_of, preset, report

    print(report())
    print(report(replace(MISSION, name="Llama-3.2-1B on 4 × A100-80", model=preset("Llama-3.2-1B"),
                         machine=machine_of("A100-80", num_devices=4))))

{whose}
"""


@dataclass
class Exported:
    """A package that was written.

    Attributes:
        folder: Where it lies.
        own: Names of the student's functions in it.
        left_out: Why others of theirs are not, by name.
        dependencies: Distributions that theirs import.
    """

    folder: Path
    own: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    dependencies: set[str] = field(default_factory=set)

    def summary(self) -> list[str]:
        """What it holds, a line each."""
        count, rest = len(self.own), len(COURSE_FUNCTIONS) - len(self.own)
        lines = [f"{self.folder}: functions of yours: {count}, of the course's: {rest}."]
        lines += [f"`{name}` is the course's: {why}." for name, why in self.left_out.items()]
        return [*lines, f"Use it anywhere: `pip install {self.folder}`, `import {NAME}`."]


def export(work: Path) -> Exported:
    """Write the plan of a work folder as a package into it.

    Raises:
        CommandError: If there is no work folder, or a package already, which may have been changed.
    """
    done = Exported(work / NAME)
    if not work.is_dir():
        raise CommandError(f"There is no {work} yet: `make lab` makes it, and units fill it.")
    if done.folder.exists():
        raise CommandError(f"{done.folder} is there already: rename it or delete it first.")
    making = work / f".{NAME}.writing"
    shutil.rmtree(making, ignore_errors=True)
    inside = making / "src" / NAME
    _copy_course(inside / "course")
    for name in COURSE_FUNCTIONS:
        _add_own(name, work / "planner" / f"{name}.py", inside / "own", done)
    (inside / "__init__.py").write_text(_front(done.own), encoding="utf-8")
    _describe(making, done)
    making.rename(done.folder)
    return done


def _copy_course(target: Path) -> None:
    """Copy what a plan reads of the course, so that it knows itself by its new name."""
    files = [COURSE / "__init__.py"]
    files += [path for room in ROOMS for path in (COURSE / room).rglob("*") if path.is_file()]
    for path in (each for each in files if each.suffix in (".py", ".csv")):
        copy = target / path.relative_to(COURSE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_renamed(path.read_text(encoding="utf-8")), encoding="utf-8")


def _renamed(source: str) -> str:
    return WORD.sub(f"{NAME}.course", source)


def _add_own(name: str, file: Path, own: Path, done: Exported) -> None:
    """Add a function of the student's, if all that it imports can be had outside of the course."""
    if not file.exists():
        return
    source = file.read_text(encoding="utf-8")
    for module in _imported(source):
        if why := _hindrance(module):
            done.left_out[name] = why
            return
    own.mkdir(exist_ok=True)
    (own / "__init__.py").write_text('"""Functions of one\'s own."""\n', encoding="utf-8")
    (own / f"{name}.py").write_text(_renamed(source), encoding="utf-8")
    done.own.append(name)
    done.dependencies |= {each for module in _imported(source) for each in _distributions(module)}


def _imported(source: str) -> Iterator[str]:
    """Dotted names of the modules that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _hindrance(module: str) -> str:
    """Why a module cannot be had outside of the course; empty if it can."""
    package, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    if package == "autograder" or (package == "course_utils" and room not in ROOMS):
        return f"it reads `{module}`, which stays in the course"
    return ""


def _distributions(module: str) -> Sequence[str]:
    """What has to be installed for a module; nothing for Python's own and the course's."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names or package == "course_utils":
        return []
    return packages_distributions().get(package, [package])[:1]


def _front(own: Sequence[str]) -> str:
    imports = "".join(f"from {NAME}.own.{name} import {name}\n" for name in own)
    return FRONT.format(imports=imports, own=", ".join(f'"{name}": {name}' for name in own))


def _describe(folder: Path, done: Exported) -> None:
    """Write what pip and a reader need."""
    dependencies = ", ".join(f'"{name}"' for name in sorted(done.dependencies))
    own = ", ".join(f"`{name}`" for name in done.own) or "none"
    whose = f"Written by the owner of this package: {own}. All else comes from the course."
    texts = {
        "pyproject.toml": PROJECT.format(dependencies=dependencies),
        "README.md": README.format(whose=whose),
        "LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def main() -> int:
    """Write the package of this course's work folder, and say what it holds."""
    try:
        print("\n".join(export(ROOT / "work").summary()))
    except CommandError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
