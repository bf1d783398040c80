"""The results of a unit, from the journal that the grading leaves behind."""

from pathlib import Path

from course_utils.grading.result import Result


class JournalError(Exception):
    """A journal that is not there, is empty, or holds something else than results."""


def read_results(root: Path, unit: str) -> list[Result]:
    """What is known of each student's submission, in the order of their names.

    A student's last line counts. A last line without its end is being written and is left out.

    Args:
        root: The folder of the course.
        unit: The unit's folder name.

    Raises:
        JournalError: If nothing of the unit was graded, or a line is no result.
    """
    path = root / "grading" / f"{unit}.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    if not lines:
        raise JournalError(f"{path} holds nothing: `make grade UNIT={unit}` writes it.")
    read = [_result(line, f"{path}, line {n}") for n, line in enumerate(lines, start=1)]
    last = {each.student: each for each in read}
    return [last[student] for student in sorted(last)]


def _result(line: str, place: str) -> Result:
    try:
        return Result.from_json(line)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JournalError(
            f"{place} is no result ({type(error).__name__}: {error}). Remove that line and grade "
            f"its student again."
        ) from None
