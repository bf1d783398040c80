"""What students practise with was recorded on another processor, which rounds in another order."""

import os
import subprocess
import sys
from pathlib import Path

# As on a processor without wide vectors: sums in another order, and other random numbers.
OTHER = {"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"}
FAILING = """
from autograder import catalogue
from autograder.checking.lookup import practice_check_of
from autograder.checking.scoring import score_answer
from autograder.checking.seeds import AGAIN_SEEDS, PRACTICE_SEEDS
from autograder.checking.practice_pack import path_of
from autograder.exercises.model_answers import model_answer

for item in (each for unit in catalogue.units() for each in unit.exercises if not each.manual):
    for again, seeds in ((False, PRACTICE_SEEDS), (True, AGAIN_SEEDS)):
        if path_of(item.id, again=again).exists():
            check = practice_check_of(item.id, again=again)
            result = score_answer(check, model_answer(item.id), seeds)
            verdict = result.verdict(item.id, item.points, tell_all=True)
            if not verdict.passed:
                print(verdict)
"""


def test_model_answers_pass_on_a_processor_that_rounds_otherwise():
    done = subprocess.run(
        [sys.executable, "-c", FAILING],
        cwd=Path(__file__).parents[3],
        env=os.environ | OTHER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
