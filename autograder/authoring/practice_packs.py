"""Practice packs of exercises: recorded again when what they are recorded from has changed.

That is the model answer with what it reads of its master, its known mistakes, its check with what
that reads of the unit's module, all that these use, and what packs them; no other exercise.
Recording loads the checks, so that it runs in a process of its own.
"""

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from autograder import mistake_file, practice_files
from autograder.authoring.dependencies import Dependencies
from autograder.authoring.errors import BuildError
from autograder.authoring.master import Master
from autograder.catalogue import Exercise
from autograder.files import write_whole
from autograder.master_code import FileCode, MasterCode

PACKING, RECORDER = "autograder.exercises.packing", "autograder.exercises.record"
COMPARED = 0.1  # of all exercises, by `make build ARGS=--check`


class PracticePacks:
    """The packs below a course's root, and what each was recorded from."""

    def __init__(self, root: Path, dependencies: Dependencies, *, check_only: bool) -> None:
        self._root, self._dependencies, self._check_only = root, dependencies, check_only
        self._file = root / "solutions" / "practice.json"
        self._recorded: dict[str, list[str]] = (
            json.loads(self._file.read_text("utf-8")) if self._file.exists() else {}
        )
        self._up_to_date: list[str] = []

    def bring_up_to_date(self, master: Master) -> None:
        """Record the packs of a unit whose inputs, or which themselves, have changed.

        Raises:
            BuildError: If a model answer does not pass its own check, if a pack cannot be
                recorded, or if it should be and nothing may be written.
        """
        unit, code = f"u{master.unit.number}", MasterCode(master.path)
        coded = [item for item in master.unit.exercises if not item.manual]
        checks = self._checks(unit, coded)
        inputs = {
            item.id: self._inputs(code, item, checks[item.id]) for item in coded if checks[item.id]
        }
        old = [name for name in inputs if self._recorded.get(name) != self._now(name, inputs)]
        gone = [name for name in self._of(unit) if name not in inputs]
        if old or gone:
            if self._check_only:
                names = ", ".join([*old, *gone])
                raise BuildError(
                    f"practice cases have to be recorded again ({names}): `make build`."
                )
            if old:
                print(f"  recording {master.unit.folder}: {len(old)} exercises", flush=True)
                self._run(old, "the practice cases cannot be recorded")
            practice_files.keep_only(self._root, unit, inputs)
            for name in self._of(unit):
                del self._recorded[name]
            self._recorded |= {name: self._now(name, inputs) for name in inputs}
            write_whole(self._file, json.dumps(self._recorded, indent=1, sort_keys=True) + "\n")
        self._up_to_date += inputs

    def compare_some(self) -> None:
        """Record a tenth of the packs anew, write nothing, and compare with what is there.

        Which ones depends on what all were recorded from and on nothing else: they are the same
        wherever a commit is checked, and others once an exercise has changed.

        Raises:
            BuildError: If one differs.
        """
        seed = json.dumps(self._recorded, sort_keys=True)
        drawn = sorted(
            self._up_to_date, key=lambda name: hashlib.sha256(f"{name} {seed}".encode()).digest()
        )
        if some := drawn[: math.ceil(COMPARED * len(drawn))]:
            print(f"  recording {len(some)} exercises to compare them", flush=True)
            self._run(["--compare", *some], "practice packs are not what is recorded here")

    def used_by(self, item: Exercise) -> Iterator[str]:
        """Modules that a check in a notebook loads by name for an exercise."""
        if not practice_files.is_there(self._root, item.id):
            yield item.check_module
            return
        text, _ = practice_files.text_and_tensors(self._root, item.id)
        if observer := json.loads(text)["observer"]:
            yield observer

    def content(self, exercise: str) -> str:
        """Hash of what the packs of an exercise hold; empty where it has none."""
        digest = hashlib.sha256()
        members = practice_files.members_of(self._root, exercise)
        for name, each in members.items():
            digest.update(f"{name} {len(each)}\0".encode() + each)
        return digest.hexdigest() if members else ""

    def _of(self, unit: str) -> list[str]:
        return [name for name in self._recorded if name.startswith(f"{unit}-")]

    def _now(self, exercise: str, inputs: dict[str, str]) -> list[str]:
        return [inputs[exercise], self.content(exercise)]

    def _inputs(self, code: MasterCode, item: Exercise, check: str) -> str:
        """Hash of the model answer, its mistakes, the check, and what these use."""
        answer = code.inputs_of(item.id, item.function)
        mistakes = mistake_file.text_of(code.path.with_name(mistake_file.NAME), item.id)
        source = f"{answer}\n{mistakes!r}\n{check}"  # a string literal: all of it is parsed
        return self._dependencies.fingerprint(source, (PACKING,))

    def _run(self, arguments: list[str], trouble: str) -> None:
        command = [sys.executable, "-m", RECORDER, *arguments]
        # What it prints shows how far it is.
        done = subprocess.run(
            command, cwd=self._root, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise BuildError(f"{trouble}: {last}")

    def _checks(self, unit: str, items: Iterable[Exercise]) -> dict[str, str]:
        """The code of each exercise's check, with what it reads of its file; empty without one."""
        room = self._root / "autograder" / "exercises"
        paths = sorted([*room.glob(f"{unit}.py"), *room.glob(f"{unit}/*.py")])
        files = [FileCode(path) for path in paths]
        return {item.id: "".join(file.check_of(item.id) for file in files) for item in items}
