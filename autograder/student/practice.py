"""`make practice UNIT=01`: new sizes for exercises that were passed, in their check cells.

The points stay. Once an exercise is right on the new sizes, it has its first ones again; Validate
and grading know nothing of this.
"""

from collections.abc import Sequence
from pathlib import Path

from autograder import catalogue, practice_files, progress_file
from autograder.catalogue import Exercise
from autograder.commands import CommandError, find_unit


def practise(root: Path, work: Path, wanted: str, exercise: str = "") -> list[Exercise]:
    """Give passed exercises of a unit new sizes.

    Args:
        root: The root folder of the course.
        work: The work folder.
        wanted: The unit's folder name or number.
        exercise: Id of the one to practise; empty for all that were passed.

    Returns:
        Those that have new sizes now.

    Raises:
        CommandError: If there is none; the message says why.
    """
    folder = find_unit(root / "notebooks", wanted)
    path = work / progress_file.NAME
    chosen = _coded(folder, exercise)
    entries = progress_file.read(path)["exercises"]
    passed = [item for item in chosen if entries.get(item.id, {}).get("points") == item.points]
    new = [item for item in passed if practice_files.is_there(root, item.id, again=True)]
    if not passed:
        raise CommandError(
            f"New sizes are for what was passed, and no check of {exercise or folder} has given "
            "all its points in your work folder yet: solve it first."
        )
    if not new:
        raise CommandError(f"There are no other sizes for {', '.join(i.id for i in passed)}.")
    with progress_file.changing(path) as progress:
        for item in new:
            progress["exercises"][item.id]["again"] = True
    return new


def _coded(folder: str, exercise: str) -> list[Exercise]:
    """The exercises of a unit that have a check, or the one that is named."""
    unit = next(each for each in catalogue.units() if each.folder == folder)
    coded = [item for item in unit.exercises if not item.manual]
    if not coded:
        raise CommandError(f"{folder} has no exercise with a check, so there are no new sizes.")
    chosen = [item for item in coded if exercise in ("", item.id)]
    if not chosen:
        names = ", ".join(item.id for item in coded)
        raise CommandError(f"{folder} has no exercise `{exercise}` with a check; it has {names}.")
    return chosen


def print_what_is_new(new: Sequence[Exercise], fresh: str) -> None:
    """Say which exercises have new sizes, and by which command one is written anew."""
    print("New sizes in the check cells of")
    for item in new:
        print(f"  {item.id}  {item.title}")
    print("Run one: your points stay, and once it is right there it has its first sizes again.")
    print(f"To write one from memory: `{fresh}{new[0].id}`.")
