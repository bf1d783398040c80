"""Practice packs of exercises: recorded again when what they are recorded from has changed.

Recording loads the checks, so that it runs in a process of its own.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring.dependencies import Dependencies
from autograder.authoring.errors import BuildError
from autograder.authoring.master import Master
from autograder.catalogue import Exercise
from autograder.cells import is_solution
from autograder.files import write_whole

RECORDER = "autograder.exercises.record"
DEFINES = ("def ", "import ")


class PracticePacks:
    """The packs below a course's root, and what each was recorded from."""

    def __init__(self, root: Path, dependencies: Dependencies, *, check_only: bool) -> None:
        """Read what the packs were recorded from."""
        self._root, self._dependencies, self._check_only = root, dependencies, check_only
        self._file = root / "solutions" / "practice.json"
        self._recorded: dict[str, list[str]] = (
            json.loads(self._file.read_text("utf-8")) if self._file.exists() else {}
        )

    def bring_up_to_date(self, master: Master) -> None:
        """Record the packs of a unit whose inputs, or which themselves, have changed.

        Raises:
            BuildError: If one cannot be recorded, or should be and nothing may be written.
        """
        coded = [item for item in master.unit.exercises if self._has_check(item)]
        inputs = {item.id: self._inputs(master, item) for item in coded}
        old = [item for item in coded if self._recorded.get(item.id) != self._now(item, inputs)]
        if not old:
            return
        if self._check_only:
            names = ", ".join(item.id for item in old)
            raise BuildError(f"practice cases have to be recorded again ({names}): `make build`.")
        print(f"  recording {master.unit.folder}: {len(old)} exercises", flush=True)
        self._record([item.id for item in old])
        others = {
            name: each
            for name, each in self._recorded.items()
            if not name.startswith(f"u{master.unit.number}-")
        }
        self._recorded = others | {item.id: self._now(item, inputs) for item in coded}
        write_whole(self._file, json.dumps(self._recorded, indent=1, sort_keys=True) + "\n")

    def used_by(self, item: Exercise) -> Iterator[str]:
        """Modules that a check in a notebook loads by name for an exercise."""
        if not self.content(item):
            yield item.check_module
            return
        pack = json.loads((self._root / item.practice_pack).read_text("utf-8"))
        if pack["observer"]:
            yield pack["observer"]

    def content(self, item: Exercise) -> bytes:
        """Hash of the packs of an exercise; empty where it has none."""
        packs = (self._root / item.practice_pack, self._root / item.new_sizes)
        files = (file for pack in packs for file in (pack, pack.with_suffix(".safetensors")))
        parts = [file.read_bytes() for file in files if file.exists()]
        return hashlib.sha256(b"\0".join(parts)).digest() if parts else b""

    def _now(self, item: Exercise, inputs: dict[str, str]) -> list[str]:
        return [inputs[item.id], self.content(item).hex()]

    def _inputs(self, master: Master, item: Exercise) -> str:
        """Hash of the model answer, of what the master gives it, and of the check."""
        cells = [cell for cell in master.notebook.cells if cell.cell_type == "code"]
        code = "\n".join(
            cell.source
            for cell in cells
            if (f"def {item.function}(" in cell.source or f"class {item.function}" in cell.source)
            or (not is_solution(cell) and any(word in cell.source for word in DEFINES))
        )
        return self._dependencies.fingerprint(code, (item.check_module, RECORDER))

    def _record(self, exercises: list[str]) -> None:
        command = [sys.executable, "-m", RECORDER, *exercises]
        # What it prints shows how far it is.
        done = subprocess.run(
            command, cwd=self._root, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise BuildError(f"the practice cases cannot be recorded: {last}")

    def _has_check(self, item: Exercise) -> bool:
        path = self._root.joinpath(*item.check_module.split("."))
        return not item.manual and path.with_suffix(".py").exists()
