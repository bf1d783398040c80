"""Practice packs are recorded when something behind them has changed, and only then."""

import json
import shutil

import pytest

from autograder import practice_files
from autograder.authoring import master
from autograder.authoring.dependencies import Dependencies
from autograder.authoring.errors import BuildError
from autograder.authoring.practice_packs import PracticePacks
from tests.notebooks.filling import ROOT

UNIT = "01_transformer_flops"
MASTER = f"solutions/{UNIT}/{UNIT}.py"
EXERCISE = "u01-matmul-flops"
CHECKS = "autograder/exercises/u01.py"
MISTAKES = f"solutions/{UNIT}/mistakes.diff"
HINT = ("Your backward pass is half.", "That is half of it.")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A copy of what recording needs, with the packs of one exercise up to date."""
    root = tmp_path_factory.mktemp("course")
    leave_out = shutil.ignore_patterns("__pycache__", "*.ipynb", "grading", "student", "u0[!1]")
    for name in ("autograder", "course_utils", f"solutions/{UNIT}"):
        shutil.copytree(ROOT / name, root / name, ignore=leave_out)
    changed(root)
    return root


@pytest.fixture
def course(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "course")


def packs_in(root, *, check_only=False, exercises=(EXERCISE,)):
    """The packs of some exercises, and the unit's master with no others."""
    packs = PracticePacks(root, Dependencies(root), check_only=check_only)
    unit = master.read(root / MASTER)
    items = tuple(item for item in unit.unit.exercises if item.id in exercises)
    object.__setattr__(unit.unit, "exercises", items)
    return packs, unit


def changed(root, *, check_only=False, really=False):
    """Bring the packs of one exercise up to date; the exercises that are recorded."""
    recorded = []
    packs, unit = packs_in(root, check_only=check_only)
    run = packs._run if really else lambda *_: None
    packs._run = lambda exercises, trouble: (recorded.extend(exercises), run(exercises, trouble))
    packs.bring_up_to_date(unit)
    return recorded


def replace(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def edit_pack(root, old, new):
    """Change the pack by hand."""
    text, tensors = practice_files.text_and_tensors(root, EXERCISE)
    assert old in text
    members = practice_files.named(EXERCISE, text.replace(old, new), tensors)
    again = practice_files.text_and_tensors(root, EXERCISE, again=True)
    members |= practice_files.named(EXERCISE, *again, again=True)
    practice_files.replace(root, {EXERCISE: members})


def test_an_idle_build_records_nothing(course):
    assert changed(course) == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (CHECKS, "def matmul_cases(seed: int)", "def matmul_cases(seed: int = 0)"),
        (MISTAKES, *HINT),
        ("course_utils/instruments/flop_count.py", '"""', '"""New. '),
        ("autograder/exercises/packing.py", '"""', '"""New. '),
        (MASTER, "two_gradients = 2 *", "two_gradients = 1 * 2 *"),
        # A name of the model answer, which hints use once the card has its words.
        (MASTER, "*By hand:* rows 2,", "One product by hand: rows 2,"),
    ],
)
def test_what_a_pack_is_made_of_makes_it_anew(course, file, old, new):
    replace(course / file, old, new)
    assert changed(course) == [EXERCISE]
    assert changed(course) == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (MASTER, "# ## One small product", "# ## One product"),
        (MASTER, "# Square, odd, unequal sizes;", "# Sizes of any kind;"),
        (MASTER, "*By hand:* rows 2,", "*With a pencil:* rows 2,"),
        (MASTER, "try_it(matmul_flops, 2, 3, 5)", "try_it(matmul_flops, 2, 3, 6)"),
        (MASTER, "def measured_core(", "import math\n\n\ndef measured_core("),
        (MASTER, "def gated_mlp_flops(num_tokens: int,", "def gated_mlp_flops(num_tokens: float,"),
        (CHECKS, '"""The checks', '"""All checks'),
        (CHECKS, "def measured_mlp_flops(", "# counted\ndef measured_mlp_flops("),
        (MISTAKES, "Your feed-forward block has two matrices.", "Your block has two matrices."),
        ("autograder/authoring/practice_packs.py", '"""', '"""New. '),
    ],
)
def test_nothing_else_does(course, file, old, new):
    replace(course / file, old, new)
    assert changed(course) == []


def test_a_function_that_the_model_answer_reads_makes_it_anew_and_another_does_not(course):
    given = "# %%\ndef doubled(x):\n    return 2 * x\n\n\ndef unread(x):\n    return x\n\n\n"
    replace(
        course / MASTER, '# %% solution="u01-matmul-flops"', f'{given}# %% solution="{EXERCISE}"'
    )
    assert changed(course) == []
    replace(
        course / MASTER, "two_gradients = 2 * one_product", "two_gradients = doubled(one_product)"
    )
    assert changed(course) == [EXERCISE]
    replace(course / MASTER, "def unread(x):\n    return x", "def unread(x):\n    return -x")
    assert changed(course) == []
    replace(course / MASTER, "    return 2 * x", "    return x + x")
    assert changed(course) == [EXERCISE]


def test_a_pack_that_was_edited_by_hand_is_recorded_again(course):
    before = practice_files.members_of(course, EXERCISE)
    edit_pack(course, '"rows": 2', '"rows": 3')
    assert changed(course, really=True) == [EXERCISE]
    assert practice_files.members_of(course, EXERCISE) == before


def test_check_only_says_what_is_to_be_done(course):
    replace(course / MISTAKES, *HINT)
    with pytest.raises(BuildError, match=rf"recorded again \({EXERCISE}\): `make build`"):
        changed(course, check_only=True)


def test_a_check_that_cannot_be_recorded_is_named(course):
    replace(course / MISTAKES, "2 * one_product => one_product\n", "no such text => one_product\n")
    wanted = "cannot be recorded: .*mistakes.diff, line 6: the model answer has 'no such text'"
    with pytest.raises(BuildError, match=wanted):
        changed(course, really=True)


def test_a_model_answer_that_fails_its_own_check_stops_the_build_and_nothing_is_written(course):
    replace(
        course / MASTER,
        '    return {"forward_flops": one',
        '    one_product += 1\n    return {"forward_flops": one',
    )
    kept = {path: path.read_bytes() for path in (course / "autograder").rglob("*.zip")}
    recorded_from = (course / "solutions/practice.json").read_text()
    with pytest.raises(BuildError) as stopped:
        changed(course, really=True)
    said = str(stopped.value)
    assert f"the model answer of {EXERCISE} does not pass its own check. " in said
    assert "Expected 60 for forward_flops, got 61 " in said
    assert {path: path.read_bytes() for path in kept} == kept
    assert (course / "solutions/practice.json").read_text() == recorded_from


def test_an_exercise_that_is_gone_is_forgotten_with_its_packs(course):
    gone = {"u01-gone": practice_files.named("u01-gone", "{}", b"")}
    practice_files.replace(course, gone)
    replace(
        course / "solutions/practice.json", "{", '{"u01-gone": ["", ""], "u03-other": ["", ""],'
    )
    with pytest.raises(BuildError, match=r"recorded again \(u01-gone\)"):
        changed(course, check_only=True)
    assert changed(course) == []
    kept = json.loads((course / "solutions/practice.json").read_text("utf-8"))
    assert set(kept) == {EXERCISE, "u03-other"}
    assert not practice_files.is_there(course, "u01-gone")
    assert practice_files.is_there(course, EXERCISE)


def compared(root, exercises):
    """Which of some exercises a check of the build records, once all are up to date."""
    packs, unit = packs_in(root, exercises=exercises)
    found = []
    packs._run = lambda arguments, trouble: found.append(arguments)
    packs.bring_up_to_date(unit)
    packs.compare_some()
    return found[-1]


def test_a_tenth_is_compared_and_the_same_ones_until_something_changes(course):
    read = master.read(course / MASTER).unit.exercises
    names = [item.id for item in read if not item.manual]
    assert len(names) == 11
    flag, *first = compared(course, names)
    assert (flag, len(first)) == ("--compare", 2)
    assert compared(course, names) == [flag, *first]
    others = []
    for number in range(4):
        replace(
            course / MISTAKES, "Your backward pass is half", f"{number}. Your backward pass is half"
        )
        others.append(compared(course, names))
    assert any(other != [flag, *first] for other in others)


def test_a_pack_that_is_not_what_is_recorded_fails_a_check(course):
    packs, unit = packs_in(course, check_only=True)
    packs.bring_up_to_date(unit)
    packs.compare_some()
    edit_pack(course, '"backward_flops": 120', '"backward_flops": 121')
    packs._recorded[EXERCISE][1] = packs.content(EXERCISE)
    written = practice_files.path_of(course, EXERCISE).read_bytes()
    wanted = rf"not what is recorded here: {EXERCISE}: right\.0\.backward_flops: 121 became 120"
    with pytest.raises(BuildError, match=wanted):
        packs.compare_some()
    assert practice_files.path_of(course, EXERCISE).read_bytes() == written
