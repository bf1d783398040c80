"""Record the practice packs of some exercises: `python -m autograder.exercises.record u01-…`.

Each model answer is scored with the pack that was made of it. If one does not pass, nothing is
written. With `--compare` nothing is written either: packs are recorded and compared with those that
are there.
"""

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence

from autograder import catalogue, practice_files
from autograder.checking import plain_data, practice_pack
from autograder.checking.lookup import check_of
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import PRACTICE_SEEDS
from autograder.checking.single_thread import one_thread
from autograder.exercises.model_answers import model_answer
from autograder.exercises.pack_comparison import difference
from autograder.exercises.packing import Packs, packs_of


class ModelAnswerFails(Exception):
    """A model answer does not pass its own check; the message says what the check says."""


def refuse_failing(exercise: str, packs: Packs) -> None:
    """Score the model answer of an exercise with the packs that were made of it.

    Raises:
        ModelAnswerFails: If it does not earn all points.
    """
    points = catalogue.exercise(exercise).points
    for pack in packs.values():
        result = score_answer(
            practice_pack.made_of(packs[False], pack), model_answer(exercise), PRACTICE_SEEDS
        )
        verdict = result.verdict(exercise, points, tell_all=True)
        if not verdict.passed:
            sizes = f" Sizes: {verdict.sizes}." if verdict.sizes else ""
            raise ModelAnswerFails(
                f"the model answer of {exercise} does not pass its own check. "
                f"{verdict.sentence}{sizes}"
            )


def differences(exercise: str, packs: Packs) -> Iterator[str]:
    """Where packs differ from those that are there, beyond last digits."""
    for again, what in ((False, "practice cases"), (True, "new sizes")):
        is_there = practice_pack.is_recorded(exercise, again=again)
        if is_there and again in packs:
            old = practice_pack.read(exercise, again=again)
            yield from filter(None, [difference(old, packs[again])])
        elif is_there or again in packs:
            yield f"there are {'no ' * (not is_there)}{what}, unlike here"


def write(new: dict[str, Packs]) -> None:
    """Write packs, unit by unit; those that are the same but for last digits stay as they are."""
    for _, exercises in itertools.groupby(sorted(new), key=lambda name: name.split("-")[0]):
        changed = {name: new[name] for name in exercises if any(differences(name, new[name]))}
        members = {name: _members(name, packs) for name, packs in changed.items()}
        if members:
            practice_files.replace(practice_pack.ROOT, members)


def _members(exercise: str, packs: Packs) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for again, pack in packs.items():
        text, tensors = plain_data.pack(pack)
        found |= practice_files.named(exercise, f"{text}\n", tensors, again=again)
    return found


@one_thread()
def record(exercises: Iterable[str]) -> None:
    """Write the packs of exercises whose model answers stand in their text master, and say so.

    Raises:
        ModelAnswerFails: If one does not pass its own check; then none is written.
    """
    new: dict[str, Packs] = {}
    for exercise in exercises:
        new[exercise] = packs_of(exercise, check_of(exercise))
        refuse_failing(exercise, new[exercise])
        print(f"    {exercise}", flush=True)
    write(new)


@one_thread()
def compare(exercises: Iterable[str]) -> list[str]:
    """Record packs anew, write nothing, and say which differ from those that are there."""
    return [
        f"{exercise}: {found}"
        for exercise in exercises
        for found in differences(exercise, packs_of(exercise, check_of(exercise)))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record, or compare; 1 if a model answer fails or a pack differs."""
    parser = argparse.ArgumentParser(prog="record", description=__doc__)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("exercises", nargs="+")
    options = parser.parse_args(arguments)
    try:
        wrong = compare(options.exercises) if options.compare else []
        if not options.compare:
            record(options.exercises)
    except ModelAnswerFails as error:
        wrong = [str(error)]
    if wrong:
        print("; ".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
