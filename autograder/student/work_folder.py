"""Copy missing units into the student's own folder, `work/`.

They come from `notebooks/`. What exists in `work/` is never touched, because it is somebody's work.

    copy_missing_units(Path("notebooks"), Path("work"))  # ["01_transformer_flops"]
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autograder import progress_file
from autograder.commands import CommandError, units_in


def copy_missing_units(notebooks: Path, work: Path) -> list[str]:
    """Copy what the work folder lacks of the released units; overwrite nothing.

    Returns:
        What was copied: the names of whole units, and "unit/file" for single files.

    Raises:
        CommandError: If the work folder cannot be written.
    """
    try:
        work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".copying-", dir=work) as staging:
            progress_file.create(work)
            return [
                name
                for unit in units_in(notebooks)
                for name in complete_unit(unit, work / unit.name, Path(staging))
            ]
    except OSError as error:
        raise CommandError(
            f"Your notebooks go into the folder {work}, which cannot be written ({error}): "
            "move away what is in its place, or fix its permissions, and run the command again."
        ) from error


def complete_unit(unit: Path, target: Path, staging: Path) -> Iterator[str]:
    """Copy a unit, or those of its files that are missing; each appears whole or not at all."""
    if not target.exists():
        (staging / unit.name).mkdir()
        for file in files_in(unit):
            copy_file(unit / file, staging / unit.name / file)
        (staging / unit.name).rename(target)
        yield unit.name
        return
    for file in files_in(unit):
        if not (target / file).exists() and not (target / file).is_symlink():
            copy_file(unit / file, staging / "file")
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            (staging / "file").rename(target / file)
            yield f"{unit.name}/{file}"


def files_in(unit: Path) -> list[Path]:
    """Relative paths of a unit's files, without hidden ones such as an editor's checkpoints."""
    inside = (file.relative_to(unit) for file in unit.rglob("*") if file.is_file())
    return sorted(file for file in inside if not any(part.startswith(".") for part in file.parts))


def copy_file(source: Path, target: Path) -> None:
    """Copy only the content: a write-protected release must be editable in `work/`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
