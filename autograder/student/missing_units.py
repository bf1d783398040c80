"""Copy what is missing into the student's own folder, `work/`.

It comes from `notebooks/`. What exists in `work/` is never touched, because it is somebody's work.
Each file appears whole or not at all; what was interrupted goes on at the next call.

    copy_missing_units(Path("notebooks"), Path("work"))  # ["01_transformer_flops"]
"""

import os
import shutil
from pathlib import Path

from autograder import progress_file
from autograder.commands import units_in
from autograder.files import replacing


def copy_missing_units(notebooks: Path, work: Path) -> list[str]:
    """Copy what the work folder lacks of the released units; overwrite nothing.

    Returns:
        What was copied: the names of whole units, and "unit/file" for single files.

    Raises:
        OSError: If the work folder cannot be written.
    """
    work.mkdir(parents=True, exist_ok=True)
    progress_file.create(work)
    return [name for unit in units_in(notebooks) for name in _complete(unit, work / unit.name)]


def _complete(unit: Path, target: Path) -> list[str]:
    is_new = not target.exists()
    missing = [file for file in files_in(unit) if not os.path.lexists(target / file)]
    for file in missing:
        copy_file(unit / file, target / file)
    return [unit.name] if is_new else [f"{unit.name}/{file}" for file in missing]


def files_in(unit: Path) -> list[Path]:
    """Relative paths of a unit's files, without hidden ones such as an editor's checkpoints."""
    inside = (file.relative_to(unit) for file in unit.rglob("*") if file.is_file())
    return sorted(file for file in inside if not any(part.startswith(".") for part in file.parts))


def copy_file(source: Path, target: Path) -> None:
    """Copy only the content: a write-protected release must be editable in `work/`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as copy:
        shutil.copyfile(source, copy)
