"""From text masters to everything that is generated: `make build`.

For each unit: the practice packs of its exercises and the instructor notebook (recorded and
executed again only when what they run has changed), the release, and for the course the catalogue,
the table of units in the README and the map of the packages. Nothing that a person edited by
hand is overwritten: the build stops and says how to take the edit into the master. It stops, too,
where a model answer does not pass its own check.
"""

import argparse
import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.authoring import import_diagram, master, readme
from autograder.authoring.dependencies import Dependencies
from autograder.authoring.errors import BuildError
from autograder.authoring.execution import execute, outputs_of, with_outputs
from autograder.authoring.master import Master
from autograder.authoring.practice_packs import PracticePacks
from autograder.authoring.release import release
from autograder.commands import ROOT, stops_with_a_sentence
from autograder.files import write_whole

KEPT = "autograder.exercises.kept"  # it loads all checks, so it runs in a process of its own


@dataclass(frozen=True)
class Target:
    """The generated files of one unit, below a course's root."""

    root: Path
    folder: str

    @property
    def instructor(self) -> Path:
        """The solved notebook with its outputs."""
        return self.root / "solutions" / self.folder / f"{self.folder}.ipynb"

    @property
    def release(self) -> Path:
        """What students get."""
        return self.root / "notebooks" / self.folder / f"{self.folder}.ipynb"


class Build:
    """One run of the build over a course's folder."""

    def __init__(
        self,
        root: Path = ROOT,
        *,
        only: str = "",
        check_only: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.root, self.only = root, only
        self.check_only, self.overwrite = check_only, overwrite
        self.record_file = root / "solutions" / "build.json"
        self.record: dict[str, dict[str, str]] = _read_record(self.record_file)
        self.dependencies = Dependencies(root)
        self.changed: list[Path] = []
        self.packs = PracticePacks(root, self.dependencies, check_only=check_only)

    def run(self) -> list[Path]:
        """Build the units and give the files that changed (or would, with `check_only`)."""
        masters = [master.read(path) for path in sorted(self.root.glob("solutions/*/*.py"))]
        self._write(self.root / "autograder" / "catalogue.json", _catalogue_json(masters))
        for each in self._chosen(masters):
            self._build_unit(each)
        known = {each.unit.folder for each in masters}
        self.record = {name: entry for name, entry in self.record.items() if name in known}
        self._write_record()
        units = [each.unit for each in masters]
        self._rewrite("README.md", lambda text: readme.with_units(text, units))
        self._rewrite(
            "docs/architecture.md",
            lambda text: import_diagram.with_diagram(text, self.root, self.dependencies),
        )
        return self.changed

    def _chosen(self, masters: list[Master]) -> list[Master]:
        chosen = [each for each in masters if self.only in ("", each.unit.number, each.unit.folder)]
        if not chosen:
            there = ", ".join(each.unit.number for each in masters)
            raise BuildError(f"there is no unit {self.only!r}; name one of {there}, as in UNIT=01")
        return chosen

    def _build_unit(self, unit_master: Master) -> None:
        target = Target(self.root, unit_master.unit.folder)
        entry = self.record.get(unit_master.unit.folder, {})
        released = release(unit_master.notebook, self.root)
        self._refuse_hand_edits(target.instructor, unit_master.notebook, entry.get("instructor"))
        self._refuse_hand_edits(target.release, released, entry.get("release"))
        _refuse_what_is_not_python(unit_master)
        self.packs.bring_up_to_date(unit_master)
        inputs = self._inputs(unit_master)
        # Before any file is written: a cell may fail.
        solved = self._executed(unit_master, target, inputs, entry)
        self._write_notebook(target.release, released)
        self._write_notebook(target.instructor, solved)
        self.record[unit_master.unit.folder] = {
            "inputs": inputs,
            "instructor": fingerprint(unit_master.notebook),
            "release": fingerprint(released),
        }
        self._write_record()

    def _write_record(self) -> None:
        self._write(self.record_file, json.dumps(self.record, indent=1, sort_keys=True) + "\n")

    def _refuse_hand_edits(self, path: Path, notebook: NotebookNode, known: str | None) -> None:
        if self.overwrite or not path.exists():
            return
        present = _present(path)
        if fingerprint(present) == known or _sources(present) == _sources(notebook):
            return
        cells = ", ".join(_differing_cells(present, notebook)) or "its metadata"
        name = path.relative_to(self.root)
        raise BuildError(
            f"{name} was edited by hand ({cells}). Take the edit into "
            f"solutions/{path.parent.name}/{path.stem}.py, the file it is generated from, and run "
            f"`make build ARGS=--overwrite`; the notebook is then replaced."
        )

    def _executed(
        self, unit_master: Master, target: Target, inputs: str, entry: dict[str, str]
    ) -> NotebookNode:
        """The notebook with outputs: the stored ones while the inputs are the same."""
        if entry.get("inputs") == inputs and target.instructor.exists():
            stored = outputs_of(_present(target.instructor))
            if len(stored) == len(outputs_of(unit_master.notebook)):
                return with_outputs(unit_master.notebook, stored)
        if self.check_only:
            raise BuildError(
                f"{unit_master.unit.folder} has to be executed again: run `make build`."
            )
        print(f"  executing {unit_master.unit.folder}", flush=True)
        return execute(unit_master.notebook)

    def _inputs(self, unit_master: Master) -> str:
        """One hash over all that outputs depend on: code, its modules, the pins, the points."""
        cells = [cell for cell in unit_master.notebook.cells if cell.cell_type == "code"]
        coded = [item for item in unit_master.unit.exercises if not item.manual]
        code = "\n".join(cell.source for cell in cells)
        modules = tuple(name for item in coded for name in self.packs.used_by(item))
        uses = self.dependencies.fingerprint(code, modules)
        tags = [cell.metadata.get("tags", []) for cell in cells]
        worth = [(item.id, item.points) for item in coded]
        pins = (self.root / "requirements.txt").read_text(encoding="utf-8")
        packs = [self.packs.content(item.id) for item in coded]
        return _hash(uses, json.dumps([tags, worth, packs]), pins)

    def _rewrite(self, name: str, change: Callable[[str], str]) -> None:
        """Make a generated part of a text that people write anew, where there is such a text."""
        path = self.root / name
        if path.exists():
            self._write(path, change(path.read_text(encoding="utf-8")))

    def _write_notebook(self, path: Path, notebook: NotebookNode) -> None:
        if not path.exists() or _present(path) != notebook:
            nbformat.validate(notebook)
            self._write(path, f"{nbformat.writes(notebook)}\n")

    def _write(self, path: Path, text: str) -> None:
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return
        if path not in self.changed:
            self.changed.append(path)
        if not self.check_only:
            write_whole(path, text)


def _present(path: Path) -> NotebookNode:
    """A generated notebook as it lies there; not validated, since it is only compared."""
    notebook: NotebookNode = nbformat.v4.reads(path.read_text(encoding="utf-8"))
    return notebook


def _refuse_what_is_not_python(unit_master: Master) -> None:
    cells = [cell for cell in unit_master.notebook.cells if cell.cell_type == "code"]
    try:
        ast.parse("\n".join(cell.source for cell in cells))
    except SyntaxError as error:
        where = f"{error.msg}: {(error.text or '').strip()}"
        raise BuildError(f"{unit_master.path.name} is not Python ({where}).") from None


def fingerprint(notebook: NotebookNode) -> str:
    """Hash of all that is generated in a notebook: sources, ids and metadata, not outputs."""
    kept = [
        {key: cell[key] for key in ("id", "cell_type", "source", "metadata")}
        for cell in notebook.cells
    ]
    return _hash(json.dumps([kept, notebook.metadata], sort_keys=True))


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _sources(notebook: NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def _differing_cells(present: NotebookNode, generated: NotebookNode) -> Iterator[str]:
    wanted = {cell.id: (cell.source, cell.metadata) for cell in generated.cells}
    there = {cell.id: (cell.source, cell.metadata) for cell in present.cells}
    yield from (name for name in there if wanted.get(name) != there[name])
    yield from (f"{name} is gone" for name in wanted if name not in there)


def _catalogue_json(masters: list[Master]) -> str:
    entries: list[dict[str, Any]] = [asdict(each.unit) for each in masters]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def _read_record(path: Path) -> dict[str, dict[str, str]]:
    record: dict[str, dict[str, str]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    )
    return record


@stops_with_a_sentence
def main(arguments: list[str] | None = None) -> int:
    """Run the build and say what changed; 1 if it cannot, or if `--check` finds a difference."""
    parser = argparse.ArgumentParser(prog="make build", description=__doc__)
    parser.add_argument("unit", nargs="?", default="", help="build this unit only, as in UNIT=01")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    parser.add_argument("--overwrite", action="store_true", help="replace notebooks edited by hand")
    options = parser.parse_args(arguments)
    build = Build(only=options.unit, check_only=options.check, overwrite=options.overwrite)
    changed = build.run()
    if options.check:
        build.packs.compare_some()
    derived = [sys.executable, "-m", KEPT, *(["--check"] if options.check else [])]
    is_kept = subprocess.run(derived, cwd=build.root, check=False).returncode == 0
    for path in changed:
        print(f"  {'differs' if options.check else 'wrote'} {path.relative_to(build.root)}")
    print(f"{len(changed)} file(s) {'differ' if options.check else 'changed'}.")
    return 1 if (options.check and changed) or not is_kept else 0


if __name__ == "__main__":
    sys.exit(main())
