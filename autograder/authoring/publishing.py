"""What students get, written: as an archive, or as a git repository for hosted notebooks.

`make student-bundle` writes the archive: the same files give the same bytes, and its name has the
commit, so that two archives of one version are told apart. `make student-repository
REPO=owner/name` writes the repository; a second call adds a commit, which students pull.
"""

import re
import subprocess
import sys
from pathlib import Path

from autograder.authoring.student_files import HOST, files_for_hosts, files_for_students
from autograder.commands import ROOT, CommandError, git, stops_with_a_sentence
from autograder.files import write_zip
from course_utils import __version__

NAME = f"efficient-llm-training-{__version__}"
# Who commits; what an instructor commits on top has their own name.
AUTHOR = ("-c", "user.name=The authors of the course", "-c", "user.email=course@localhost")


def name_with_commit(root: Path) -> str:
    """A name that tells archives of one version apart: by the commit, and what is not committed.

    Args:
        root: The full repository; where git knows nothing of it, the version has to do.
    """
    try:
        return f"{NAME}-{git(root, 'describe', '--always', '--exclude=*', '--dirty=-changed')}"
    except (FileNotFoundError, subprocess.CalledProcessError):
        return NAME


def bundle(root: Path, target: Path, name: str = NAME) -> Path:
    """Write the archive into a folder and give its path.

    Args:
        root: The full repository, built.
        target: Folder for the archive.
        name: Of the archive, and of the one folder in it.
    """
    files = ((f"{name}/{file}", content) for file, content in files_for_students(root))
    return write_zip(target / f"{name}.zip", files)


def student_repository(root: Path, target: Path, repo: str) -> Path:
    """Write the repository, with a commit of what is new, and give its folder.

    Args:
        root: The full repository, built.
        target: Its folder; what is in it is replaced, but for its history.
        repo: Where it will be found: the owner and the name, with a slash.
    """
    target.mkdir(parents=True, exist_ok=True)
    git(target, "init", "--quiet", "--initial-branch=main")
    git(target, "rm", "-r", "--force", "--ignore-unmatch", ".")
    git(target, "clean", "-ffdx")
    for name, content in files_for_hosts(root, repo):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)
    git(target, "add", "--all", "--force")
    if git(target, "status", "--porcelain"):
        git(target, *AUTHOR, "commit", "--quiet", "--message", f"Version {__version__}")
    return target


@stops_with_a_sentence
def main(arguments: list[str] | None = None) -> int:
    """Write the archive, or the repository that is named, into `dist/`, and say where it is."""
    command, *words = sys.argv[1:] if arguments is None else arguments
    if command == "bundle":
        path = bundle(ROOT, ROOT / "dist", name_with_commit(ROOT))
        print(f"For students: {path.relative_to(ROOT)} ({path.stat().st_size / 2**10:.0f} KiB)")
        return 0
    repo = "".join(words)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        wanted = f"wanted the owner and the name of the repository on {HOST}"
        example = "as in `make student-repository REPO=owner/name`"
        raise CommandError(f"student-repository: {wanted}, {example}, got {repo!r}.")
    folder = student_repository(ROOT, ROOT / "dist" / "student-repository", repo)
    print(f"For students: {folder.relative_to(ROOT)}, with a commit; push it to {HOST}/{repo}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
