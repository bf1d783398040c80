"""The commands of the course: `python3 -m autograder <command>`, which the Makefile calls too.

Each command runs inside the project's own environment, which `student.environment` creates if it is
missing. Every Python since 2.7 can read this file, hence types in comments and no f-string: with an
old Python one gets a clear sentence instead of a SyntaxError.
"""

import difflib
import os
import sys

WANTED = (3, 11)

# The build writes the calls of `check`, so a name that is unused in a master may be used there.
LINT_NOTEBOOKS = "-m ruff check --isolated --no-fix --select=F --exclude=*.py solutions"

TESTS = "-m pytest -p tests.running -n logical --maxprocesses=4 --no-loadscope-reorder"
# Folders of whole programs, which `test` leaves out.
ACCEPTANCE = (
    "tests/browser tests/benchmarks tests/other_machine/at_length "
    "tests/autograder/grading/attacks tests/autograder/grading/end_to_end"
)
# A lane of its own: it makes accounts on the machine, and downloads JupyterHub and its proxy.
HUB = "tests/hub"

# name: profile of the environment, what its Python runs, help text
COMMANDS = {
    "setup": (
        "student",
        ["-m autograder.student setup"],
        "make .venv and work/, and start nothing",
    ),
    "lab": ("student", ["-m autograder.student lab"], "open JupyterLab on your work folder"),
    "submit": (
        "student",
        ["-m autograder.student submit"],
        "check a unit and hand it in",
    ),
    "fresh": ("student", ["-m autograder.student fresh"], "get a unit or a cell anew"),
    "practice": ("student", ["-m autograder.student practice"], "new sizes for what you passed"),
    "author": (
        "dev",
        ["-m autograder.student author"],
        "JupyterLab for authors and graders",
    ),
    "collect": ("dev", ["-m autograder.grading.intake.lms"], "take in an LMS download"),
    "release": ("dev", ["-m autograder.grading.release"], "let a changed unit count"),
    "grade": ("dev", ["-m autograder.grading"], "grade what was collected of a unit"),
    "read": ("dev", ["-m autograder.grading.manual_grading"], "read answers in words"),
    "report": ("dev", ["-m autograder.grading.report"], "the report of a graded class"),
    "try": ("dev", ["-m tests.trying"], "what a unit or an exercise lacks, within 90 seconds"),
    "test": ("dev", [TESTS], "run the tests"),
    "acceptance": (
        "dev",
        [TESTS + " " + ACCEPTANCE],
        "test whole programs, attack the grader, take times",
    ),
    "test-hub": ("dev", [TESTS + " " + HUB], "walk the course on a JupyterHub, as root"),
    "lint": (
        "dev",
        ["-m ruff check .", "-m ruff format --check .", LINT_NOTEBOOKS, "-m mypy"],
        "style and types",
    ),
    "build": ("dev", ["-m autograder.authoring.build"], "text masters to notebooks"),
    "book": ("dev", ["-m autograder.book"], "the course as a web page to read"),
    "exercise": ("dev", ["-m autograder.authoring.scaffold"], "the files of a new exercise"),
    "student-repository": (
        "dev",
        ["-m autograder.authoring.publishing repository"],
        "what students get, as a git repository",
    ),
    "version": ("dev", ["-m autograder.authoring.version"], "tag a version and pack it"),
    "student-bundle": (
        "dev",
        ["-m autograder.authoring.publishing bundle"],
        "what students get, packed",
    ),
}


def complaint_about_python():
    # type: () -> str
    """Say why this Python cannot run the course; empty if it can."""
    came = "Python " + ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < WANTED:
        return (
            "This course needs Python 3.11 or newer and was started with " + came + ": "
            "install a newer one, or name one that you have, as in `make lab PYTHON=python3.12`."
        )
    if os.name != "posix":
        return (
            "This course needs Linux or macOS and was started with " + came + " on Windows: "
            "run the same command inside WSL, the Linux that Windows brings along."
        )
    return ""


def complaint_about_command(name):
    # type: (str) -> str
    """Say why there is no such command here; empty if there is."""
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, list(COMMANDS), n=1)
        hint = " Did you mean `" + near[0] + "`?" if near else ""
        return "There is no command `" + name + "`." + hint + " There are: " + ", ".join(COMMANDS)
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (no pathlib in 2.7)
    if COMMANDS[name][0] == "dev" and not os.path.isdir(os.path.join(here, "authoring")):  # noqa: PTH112, PTH118
        return (
            "`" + name + "` belongs to the full repository of the course, and this is the copy for "
            "students: use `setup`, `lab`, `submit`, `fresh` or `practice` here, or get the "
            "repository."
        )
    return ""


def usage():
    # type: () -> str
    """The list of commands, one per line."""
    available = [name for name in COMMANDS if not complaint_about_command(name)]
    lines = ["  make " + name.ljust(20) + COMMANDS[name][2] for name in available]
    lines += ["", "make lab UNIT=01 PORT=8890; make submit UNIT=01; make fresh UNIT=01 CELL=name"]
    if "grade" in available:
        lines += ["make collect UNIT=01 ZIP=download.zip; make grade UNIT=01"]
        lines += ["make read UNIT=01; make report UNIT=01"]
        lines += ["make try UNIT=05; make try CELL=u05-checkpoint"]
        lines += ["make release UNIT=01"]
    return "\n".join(lines)


def main(arguments):
    # type: (list[str]) -> int
    """Run one command with its options; 0 if all went well."""
    name = arguments[0] if arguments else "help"
    wants_help = name in ("help", "-h", "--help")
    complaint = complaint_about_python() or ("" if wants_help else complaint_about_command(name))
    if complaint:
        sys.stderr.write(complaint + "\n")
        return 1
    if wants_help:
        print(usage())
        return 0
    from autograder.student import environment  # noqa: PLC0415 (modern syntax: after the check)

    profile, programs, _ = COMMANDS[name]
    return environment.run(profile, [program.split() for program in programs], arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
