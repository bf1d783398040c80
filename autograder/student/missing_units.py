"""Copy what is missing into the student's own folder, `work/`.

It comes from `notebooks/`. What exists in `work/` is never touched, because it is somebody's work.
Each file appears whole or not at all; what was interrupted goes on at the next call.

    copy_missing_units(Path("notebooks"), Path("work"))  # ["01_transformer_flops"]
"""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from autograder import progress_file
from autograder.commands import CommandError, units_in
from autograder.files import replacing


def copy_missing_units(notebooks: Path, work: Path) -> list[str]:
    """Copy what the work folder lacks of the released units; overwrite nothing.

    Returns:
        What was copied: the names of whole units, and "unit/file" for single files.

    Raises:
        CommandError: If the work folder cannot be written.
    """
    try:
        work.mkdir(parents=True, exist_ok=True)
        progress_file.create(work)
        return [name for unit in units_in(notebooks) for name in _completed(unit, work / unit.name)]
    except OSError as error:
        mend = "move away what is in its place, or fix its permissions"
        if error.errno == errno.ENOSPC:
            mend = "make room on its disk"
        raise CommandError(
            f"Your notebooks go into the folder {work}, which cannot be written ({error}): "
            f"{mend}, and run the command again."
        ) from error


def _completed(unit: Path, target: Path) -> Iterator[str]:
    is_new = not target.exists()
    for file in files_in(unit):
        if not os.path.lexists(target / file):
            copy_file(unit / file, target / file)
            yield from [] if is_new else [f"{unit.name}/{file}"]
    yield from [unit.name] if is_new else []


def files_in(unit: Path) -> list[Path]:
    """Relative paths of a unit's files, without hidden ones such as an editor's checkpoints."""
    inside = (file.relative_to(unit) for file in unit.rglob("*") if file.is_file())
    return sorted(file for file in inside if not any(part.startswith(".") for part in file.parts))


def copy_file(source: Path, target: Path) -> None:
    """Copy only the content: a write-protected release must be editable in `work/`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as copy:
        shutil.copyfile(source, copy)
