"""Which pieces of code are the same program."""

import pytest

from autograder.grading.same_code import program_of

CODE = '''def keep(s, b):
    """Bytes."""
    total = s - b
    if s:
        total += 1
    return total
'''


@pytest.mark.parametrize(
    "other",
    [
        CODE.replace("total = s - b", "total = s-b  # what is left"),
        CODE.replace("    if", "\n    # more\n\n    if"),
        CODE.replace('"""Bytes."""', '"""What autograd keeps."""'),
        CODE.replace('    """Bytes."""\n', ""),
        CODE.replace("    ", "  "),
        CODE.rstrip(),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(other):
    assert other != CODE
    assert program_of(other) == program_of(CODE)


def test_a_line_may_go_on_within_brackets():
    assert program_of("x = (s\n  - b)") == program_of("x = (s - b)")


@pytest.mark.parametrize(
    "other",
    [
        CODE.replace("s - b", "s + b"),
        CODE.replace("s - b", "b - s"),
        CODE.replace("+= 1", "+= 1.0"),
        CODE.replace("total", "kept"),
        CODE.replace("    return", "        return"),
        CODE.replace('"""Bytes."""', 's = """Bytes."""'),
    ],
)
def test_whatever_runs_otherwise_is_another_program(other):
    assert program_of(other) != program_of(CODE)


@pytest.mark.parametrize("text", ["def f(:", "x = 'open", "  if", "%%time\nx ?", "(" * 1000, "\0"])
def test_what_is_no_python_is_compared_as_it_is(text):
    assert program_of(text) == program_of(text)
    assert program_of(text) != program_of(text + "y")
