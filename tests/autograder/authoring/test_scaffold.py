"""A new exercise from the scaffold works before a word of it is replaced."""

import shutil
import subprocess
import sys

import pytest

from autograder.authoring import scaffold
from autograder.authoring.errors import BuildError
from autograder.authoring.scaffold import make_exercise
from tests.notebooks.filling import ROOT

NAME = "u00-tensor-words"
GRADES_ITSELF = f"""
import sys
from autograder.authoring import master
from autograder.authoring.build import ROOT, _catalogue_json
from pathlib import Path
masters = [master.read(path) for path in sorted(ROOT.glob("solutions/*/*.py"))]
Path("autograder/catalogue.json").write_text(_catalogue_json(masters))
from autograder.checking.lookup import practice_check_of
from autograder.checking.scoring import score_answer
from autograder.exercises import record
from autograder.exercises.model_answers import model_answer
from tests.answer_bank.every import ANSWER_BANKS
record.main(["{NAME}"])
check, bank = practice_check_of("{NAME}"), ANSWER_BANKS["{NAME}"]
verdict = score_answer(check, model_answer("{NAME}"), [1]).verdict("{NAME}", 2.0, tell_all=True)
chosen = [each for each in check.judge.mistakes if not each.is_generated]
print(verdict.points, len(chosen), len(bank.features))
"""


@pytest.fixture
def course(tmp_path):
    """A copy of what the scaffold and a check need of this repository."""
    for name in ("autograder", "course_utils", "solutions", "tests"):
        leave_out = shutil.ignore_patterns("__pycache__", "*.ipynb")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=leave_out)
    return tmp_path


def test_a_new_exercise_works_at_once(course):
    said = make_exercise(course, "00", "tensor-words")
    assert "solutions/00_start_here/00_start_here.py" in said
    done = subprocess.run(
        [sys.executable, "-c", GRADES_ITSELF],
        cwd=course,
        env={"PYTHONPATH": str(course), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["u00-tensor-words", "2.0", "5", "2"], done.stderr
    check = (course / "autograder" / "exercises" / "u00.py").read_text(encoding="utf-8")
    assert check.rstrip().endswith('dtype=torch.bfloat16, device="meta").nbytes')
    assert check.count("import Case") == 1  # beside what the module had of it


def test_its_cells_come_before_the_extras_and_the_recap(course):
    make_exercise(course, "08", "epoch-steps")
    master = (course / "solutions" / "08_batch_size" / "08_batch_size.py").read_text()
    places = [master.index(each) for each in ("u08-epoch-steps", "# ## Extras", "# ## What you")]
    assert places == sorted(places)
    module = course / "autograder" / "exercises" / "u08.py"
    command = [sys.executable, "-m", "ruff", "check", "--config", ROOT / "pyproject.toml", module]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_nothing_is_overwritten(course):
    make_exercise(course, "00", "tensor-words")
    before = {path: path.read_text() for path in course.rglob("*.py")}
    with pytest.raises(BuildError, match=r"00_start_here.py has u00-tensor-words already"):
        make_exercise(course, "00", "tensor-words")
    assert {path: path.read_text() for path in course.rglob("*.py")} == before


@pytest.mark.parametrize(
    ("unit", "name", "words"),
    [
        ("99", "tensor-words", "there is no unit '99'; name one of 00,"),
        ("", "tensor-words", "there is no unit ''"),
        ("01", "model-flops", "01_transformer_flops.py has u01-model-flops already"),
        ("00", "Tensor Words", "'Tensor Words' is no name"),
        ("00", "", "'' is no name"),
    ],
)
def test_bad_input_is_named(unit, name, words, capsys):
    assert scaffold.main([unit, name]) == 1
    assert words in capsys.readouterr().err
