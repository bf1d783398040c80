"""Programs of the grader start without what they do not need, and still read notebooks."""

import subprocess
import sys

PROGRAM = """
import sys
import autograder.grading
import nbformat

print("lark" in sys.modules)
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
nbformat.validate(notebook)
notebook.cells[0]["cell_type"] = "neither"
try:
    nbformat.validate(notebook)
except nbformat.ValidationError:
    print("refused")

class Last:
    def __del__(self):
        print("collected")

ring = [Last()]
ring.append(ring)
"""


def printed(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_no_grammar_is_compiled_and_notebooks_are_judged():
    said = printed(PROGRAM)
    assert said[:2] == ["False", "refused"]


def test_the_grammar_would_be_compiled():
    """So the test above would fail if nothing were left out."""
    assert printed("import sys, nbformat; print('lark' in sys.modules)") == ["True"]


def test_nothing_is_collected_at_the_end():
    assert "collected" not in printed(PROGRAM)
    assert "collected" in printed(PROGRAM.replace("import autograder.grading", ""))
