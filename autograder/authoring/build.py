"""From text masters to everything that is generated: `make build`.

For each unit: the instructor notebook (executed again only when its inputs changed), the release,
and for the course the catalogue and the table of units in the README. Nothing that a person edited
by hand is overwritten: the build stops and says how to take the edit into the master.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from autograder.authoring import master, readme
from autograder.authoring.master import Master, MasterError
from autograder.authoring.release import release
from autograder.files import write_whole

ROOT = Path(__file__).parents[2]
MAX_NOTEBOOK_BYTES = 2**20
NOT_SEEN_BY_NOTEBOOKS = ("authoring", "grading")
CELL_SECONDS = 300


class BuildError(RuntimeError):
    """A build that must not go on; the message says what to do."""


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

    def __init__(self, root: Path = ROOT, *, check_only: bool = False, overwrite: bool = False):
        """Say where, whether files may be written, and whether hand edits may be lost."""
        self.root, self.check_only, self.overwrite = root, check_only, overwrite
        self.record_file = root / "solutions" / "build.json"
        self.record: dict[str, dict[str, str]] = _json(self.record_file)
        self.changed: list[Path] = []

    def run(self) -> list[Path]:
        """Build all units and give the files that changed (or would, with `check_only`)."""
        paths = sorted(self.root.glob("solutions/*/*.py"))
        masters = [master.read(path) for path in paths]
        self._write(self.root / "autograder" / "catalogue.json", _catalogue(masters))
        for each in masters:
            self._build_unit(each)
        known = {each.unit.folder for each in masters}
        self.record = {name: entry for name, entry in self.record.items() if name in known}
        self._write_record()
        units = [each.unit for each in masters]
        readme_file = self.root / "README.md"
        self._write(readme_file, readme.with_units(readme_file.read_text(encoding="utf-8"), units))
        return self.changed

    def _build_unit(self, each: Master) -> None:
        target = Target(self.root, each.unit.folder)
        released = release(each.notebook, self.root)
        generated = {target.instructor: each.notebook, target.release: released}
        entry = self.record.get(each.unit.folder, {})
        for path, notebook in generated.items():
            self._refuse_hand_edits(path, notebook, entry.get(path.parts[-3], ""))
        inputs = self._inputs(each)
        solved = self._executed(each, target, inputs, entry)  # before any file: a cell may fail
        self._write(target.release, _text(released))
        self._write(target.instructor, _text(solved))
        self.record[each.unit.folder] = {
            "inputs": inputs,
            **{path.parts[-3]: fingerprint(notebook) for path, notebook in generated.items()},
        }
        self._write_record()

    def _write_record(self) -> None:
        self._write(self.record_file, json.dumps(self.record, indent=1, sort_keys=True) + "\n")

    def _refuse_hand_edits(self, path: Path, notebook: NotebookNode, known: str) -> None:
        if self.overwrite or not path.exists():
            return
        present = nbformat.read(path, as_version=4)
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
        self, each: Master, target: Target, inputs: str, entry: dict[str, str]
    ) -> NotebookNode:
        """The notebook with outputs: the stored ones while the inputs are the same."""
        if entry.get("inputs") == inputs and target.instructor.exists():
            stored = nbformat.read(target.instructor, as_version=4)
            if [cell.id for cell in stored.cells] == [cell.id for cell in each.notebook.cells]:
                return _with_outputs(each.notebook, stored)
        if self.check_only:
            raise BuildError(f"{each.unit.folder} has to be executed again: run `make build`.")
        print(f"  executing {each.unit.folder}", flush=True)
        return execute(each.notebook)

    def _inputs(self, each: Master) -> str:
        """One hash over all that the outputs depend on: master, package, pins, points."""
        package = self.root / "course_utils"
        files = [
            path
            for path in sorted(package.rglob("*"))
            if path.suffix in (".py", ".json")
            and path.relative_to(package).parts[0] not in NOT_SEEN_BY_NOTEBOOKS
        ]
        digest = hashlib.sha256()
        for path in [each.path, self.root / "requirements.txt", *files]:
            digest.update(path.relative_to(self.root).as_posix().encode() + b"\0")
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def _write(self, path: Path, text: str) -> None:
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return
        if path not in self.changed:
            self.changed.append(path)
        if not self.check_only:
            write_whole(path, text)


def execute(notebook: NotebookNode) -> NotebookNode:
    """Run a notebook from a clean kernel in an empty folder, without timing stamps or widgets."""
    solved = deepcopy(notebook)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            solved,
            timeout=CELL_SECONDS,
            record_timing=False,
            store_widget_state=False,
            resources={"metadata": {"path": folder}},
        )
        try:
            client.execute()
        except CellExecutionError as error:
            raise BuildError(f"a cell of the solved notebook fails:\n{error}") from None
    solved.metadata = notebook.metadata
    if len(_text(solved).encode()) > MAX_NOTEBOOK_BYTES:
        raise BuildError("a solved notebook may take 1 MB at most: draw fewer or smaller figures.")
    return solved


def fingerprint(notebook: NotebookNode) -> str:
    """Hash of all that is generated in a notebook: sources, ids and metadata, not outputs."""
    kept = [
        {key: cell[key] for key in ("id", "cell_type", "source", "metadata")}
        for cell in notebook.cells
    ]
    text = json.dumps([kept, notebook.metadata], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _sources(notebook: NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def _differing_cells(present: NotebookNode, generated: NotebookNode) -> Iterator[str]:
    wanted = {cell.id: (cell.source, cell.metadata) for cell in generated.cells}
    there = {cell.id: (cell.source, cell.metadata) for cell in present.cells}
    yield from (name for name in there if wanted.get(name) != there[name])
    yield from (f"{name} is gone" for name in wanted if name not in there)


def _with_outputs(notebook: NotebookNode, stored: NotebookNode) -> NotebookNode:
    for cell, before in zip(notebook.cells, stored.cells, strict=True):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = before.outputs, before.execution_count
    return notebook


def _catalogue(masters: list[Master]) -> str:
    entries: list[dict[str, Any]] = [asdict(each.unit) for each in masters]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def _text(notebook: NotebookNode) -> str:
    nbformat.validate(notebook)
    return f"{nbformat.writes(notebook)}\n"


def _json(path: Path) -> dict[str, dict[str, str]]:
    record: dict[str, dict[str, str]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    )
    return record


def main(arguments: list[str] | None = None) -> int:
    """Run the build and say what changed; 1 if it cannot, or if `--check` finds a difference."""
    parser = argparse.ArgumentParser(prog="make build", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    parser.add_argument("--overwrite", action="store_true", help="replace notebooks edited by hand")
    options = parser.parse_args(arguments)
    build = Build(check_only=options.check, overwrite=options.overwrite)
    try:
        changed = build.run()
    except (MasterError, BuildError) as error:
        print(f"make build: {error}", file=sys.stderr)
        return 1
    for path in changed:
        print(f"  {'differs' if options.check else 'wrote'} {path.relative_to(build.root)}")
    print(f"{len(changed)} file(s) {'differ' if options.check else 'changed'}.")
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
