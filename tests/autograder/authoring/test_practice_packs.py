"""Practice packs are recorded when something behind them has changed, and only then."""

import json
import shutil

import pytest

from autograder.authoring import master
from autograder.authoring.dependencies import Dependencies
from autograder.authoring.errors import BuildError
from autograder.authoring.practice_packs import PracticePacks
from tests.notebooks.filling import ROOT

UNIT = "01_transformer_flops"
EXERCISE = "u01-matmul-flops"
CHECK = "autograder/exercises/u01/matmul_flops.py"
PACK = "autograder/practice/u01/matmul_flops.json"


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


def changed(root, *, check_only=False, really=False):
    """Bring the packs of one exercise up to date; the exercises that are recorded."""
    recorded = []
    packs = PracticePacks(root, Dependencies(root), check_only=check_only)
    record = packs._record if really else len
    packs._record = lambda exercises: (recorded.extend(exercises), record(exercises))
    unit = master.read(root / "solutions" / UNIT / f"{UNIT}.py")
    items = tuple(item for item in unit.unit.exercises if item.id == EXERCISE)
    object.__setattr__(unit.unit, "exercises", items)
    packs.bring_up_to_date(unit)
    return recorded


def replace(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_an_idle_build_records_nothing(course):
    assert changed(course) == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (CHECK, "Your backward pass is half.", "That is half of it."),
        ("course_utils/instruments/flop_count.py", '"""', '"""New. '),
        (f"solutions/{UNIT}/{UNIT}.py", "two_gradients = 2 *", "two_gradients = 1 * 2 *"),
    ],
)
def test_what_a_pack_is_made_of_makes_it_anew(course, file, old, new):
    path = course / file
    text = path.read_text("utf-8")
    path.write_text(text.replace(old, new, 1), "utf-8")
    assert changed(course) == [EXERCISE]
    assert changed(course) == []


def test_a_pack_that_was_edited_by_hand_is_recorded_again(course):
    before = (course / PACK).read_bytes()
    replace(course / PACK, '"rows": 2', '"rows": 3')
    assert changed(course, really=True) == [EXERCISE]
    assert (course / PACK).read_bytes() == before


def test_prose_changes_no_pack(course):
    replace(
        course / "solutions" / UNIT / f"{UNIT}.py", "# ## One small product", "# ## One product"
    )
    assert changed(course) == []


def test_check_only_says_what_is_to_be_done(course):
    replace(course / CHECK, "Your backward pass is half.", "That is half of it.")
    with pytest.raises(BuildError, match=rf"recorded again \({EXERCISE}\): `make build`"):
        changed(course, check_only=True)


def test_a_check_that_cannot_be_recorded_is_named(course):
    replace(course / CHECK, '{BACKWARD: "one_product"}', '{"no such text": "one_product"}')
    with pytest.raises(BuildError, match="cannot be recorded: ValueError: the model answer of"):
        changed(course, really=True)


def test_an_exercise_that_is_gone_is_forgotten(course):
    replace(
        course / "solutions/practice.json", "{", '{"u01-gone": ["", ""], "u03-other": ["", ""],'
    )
    replace(course / CHECK, "Your backward pass is half.", "That is half of it.")
    assert changed(course) == [EXERCISE]
    kept = json.loads((course / "solutions/practice.json").read_text("utf-8"))
    assert set(kept) == {EXERCISE, "u03-other"}
