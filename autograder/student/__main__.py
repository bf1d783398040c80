"""The commands around a student's work folder, and JupyterLab for authors.

python -m autograder.student lab --unit 01 --port 8890
python -m autograder.student setup  # where something else starts Jupyter
python -m autograder.student fresh 01 u01-attention-flops
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from autograder.commands import ROOT, CommandError, port_number, stops_with_a_sentence
from autograder.startup import skip_slow_imports

OPENING, CHANGING = ("setup", "lab", "author"), ("submit", "fresh", "practice")


@stops_with_a_sentence
def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run one of them, and say what happened; 0 if all went well."""
    skip_slow_imports()
    options = _parser().parse_args(arguments)
    try:
        (_open if options.command in OPENING else _change)(root, options)
    except OSError as error:
        raise CommandError(
            f"Nothing of yours was changed: {error.strerror} ({error.filename}). Move away what is "
            "in its place, let it be written, or make room, and run the same command again."
        ) from error
    except KeyboardInterrupt:
        raise CommandError("Stopped.") from None
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in OPENING:
        opening = commands.add_parser(name)
        opening.add_argument("--unit", default="", help="the unit to open: its number or its name")
        opening.add_argument("--port", type=port_number, help="port to use if it is free")
    for name in CHANGING:
        changing = commands.add_parser(name)
        changing.add_argument("unit", nargs="?", default="")
        changing.add_argument("cell", nargs="?", default="")
    return parser


def _open(root: Path, options: argparse.Namespace) -> None:
    from autograder.student import launch  # noqa: PLC0415 (after `skip_slow_imports`, as below)

    if options.command == "author":
        launch.serve(root, "author", launch.author_page(root, options.unit), options.port)
        return
    page = launch.student_page(root, options.unit)
    if options.command == "lab":
        launch.serve(root, "student", page, options.port)


def _change(root: Path, options: argparse.Namespace) -> None:
    from autograder.student import practice, work_folder  # noqa: PLC0415

    unit, cell = work_folder.unit_and_cell(options.unit, options.cell)
    if options.command == "submit":
        print(f"Ready to hand in: {work_folder.WorkFolder(root).submit(unit)}")
    elif options.command == "fresh":
        work_folder.print_what_is_kept(work_folder.WorkFolder(root).fresh(unit, cell))
    else:
        new = practice.practise(root, root / "work", unit, cell)
        practice.print_what_is_new(new, f"make fresh UNIT={unit} CELL=")


if __name__ == "__main__":
    sys.exit(main())
