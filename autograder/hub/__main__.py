"""The commands of the course on a hub, `python -m autograder.hub COMMAND`: see docs/hub.md."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from autograder.commands import ROOT, stops_with_a_sentence
from autograder.hub import doctor, install, settings, start
from autograder.student.practice import practise, print_what_is_new
from autograder.student.work_folder import WorkFolder, print_what_is_kept, unit_and_cell

EXCHANGE = Path("/srv/nbgrader/exchange")


@stops_with_a_sentence
def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of them; 0 if all is well."""
    options, rest = _parser().parse_known_args(arguments)
    work = Path.home() / "work"
    if options.command == "start":
        start.start(settings.read(), Path(sys.executable), rest)
    elif options.command == "install":
        install.main(options.exchange, options.grader)
    elif options.command == "fresh":
        notebook = unit_and_cell(options.unit, options.cell)
        print_what_is_kept(WorkFolder(ROOT, work).fresh(*notebook))
    elif options.command == "practice":
        unit, exercise = unit_and_cell(options.unit, options.exercise)
        new = practise(ROOT, work, unit, exercise)
        print_what_is_new(new, "python -m autograder.hub fresh ")
    else:
        return doctor.main(settings.read())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m autograder.hub", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="once, as root, in the students' copy")
    installing.add_argument("--exchange", type=Path, default=EXCHANGE, help=f"else {EXCHANGE}")
    installing.add_argument(
        "--grader", action="append", required=True, help="account=folder of its full repository"
    )
    repairing = commands.add_parser("fresh", help="get a unit or a cell anew")
    repairing.add_argument("unit")
    repairing.add_argument("cell", nargs="?", default="")
    practising = commands.add_parser("practice", help="new sizes for what you passed")
    practising.add_argument("unit")
    practising.add_argument("exercise", nargs="?", default="")
    commands.add_parser("start", help="what the hub starts; its options go on to the server")
    commands.add_parser("doctor", help="in a terminal of the hub: what is wrong")
    return parser


if __name__ == "__main__":
    sys.exit(main())
