"""Mistakes as patches: what a file says, what each patch makes, and what is refused."""

import re
import textwrap

import pytest

from autograder.mistake_file import Change, MistakeFileError, sections_of, text_of
from tests.notebooks.filling import ROOT

SOURCE = """\
def total(rows, columns):
    count = 2 * rows
    if rows:
        count += columns
        count += 1
    return count
"""


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / "01_unit" / "mistakes.diff"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"@@ u01-total\n\n{textwrap.dedent(text)}", encoding="utf-8")
        sections_of.cache_clear()
        return path

    return written


def patches(path):
    return sections_of(path)["u01-total"].patches


def made(path):
    """The lines of each changed answer that the model answer has not."""
    known = SOURCE.splitlines()
    return [
        [line for line in patch.applied(SOURCE).splitlines() if line not in known]
        for patch in patches(path)
    ]


def test_an_arrow_changes_a_piece_of_a_line(file):
    path = file("? Why two?\n2 * rows => rows\n")
    assert made(path) == [["    count = rows"]]
    (patch,) = patches(path)
    assert (patch.hint, patch.points, patch.known_by) == ("Why two?", 0.0, ())


def test_a_hunk_changes_lines_at_their_depth(file):
    path = file(
        """\
        ? Who counts
        the columns?
          if rows:
        -     count += columns
        +     if columns:
        +         count -= columns
              count += 1
        """
    )
    assert made(path) == [["        if columns:", "            count -= columns"]]
    assert patches(path)[0].hint == "Who counts the columns?"


def test_lines_may_go_and_empty_ones_come(file):
    path = file("? Why?\n- count += 1\nand\n  count = 2 * rows\n+\n+ count = 0\n")
    (patch,) = patches(path)
    assert patch.applied(SOURCE) == SOURCE.replace("        count += 1\n", "").replace(
        "2 * rows\n", "2 * rows\n\n    count = 0\n"
    )


def test_brackets_say_what_is_still_earned_and_what_shows_it(file):
    path = file("? A? [1.5: some, other]\na => b\n\n? B? [2]\na => b\n\n? C? [some]\na => b\n")
    assert [(patch.hint, patch.points, patch.known_by) for patch in patches(path)] == [
        ("A?", 1.5, ("some", "other")),
        ("B?", 2.0, ()),
        ("C?", 0.0, ("some",)),
    ]


PATCHES = "2 * rows => rows\nor\ncount += columns => count += 7\nor\ncount += 1 => count += 2\n"


def test_or_begins_another_patch_with_the_same_question(file):
    assert made(file(f"? Why?\n{PATCHES}")) == [
        ["    count = rows"],
        ["        count += 7"],
        ["        count += 2"],
    ]


def test_any_is_every_combination_of_them(file):
    one, two, three = "    count = rows", "        count += 7", "        count += 2"
    assert made(file(f"? Why? [0.5 any]\n{PATCHES}")) == [
        *([one], [two], [three]),
        *([one, two], [one, three], [two, three]),
        [one, two, three],
    ]


def test_questions_are_asked_by_name(file):
    path = file("! seconds: Who waits,\nand when?\n! two words: Why?\n")
    assert sections_of(path)["u01-total"].questions == {
        "seconds": "Who waits, and when?",
        "two words": "Why?",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Why?\na => b\n", r"01_unit/mistakes.diff, line 3: wanted '@@ ', '\? ' or '! ', got"),
        ("? Why?\n", "line 3: the question has no change"),
        ("? Why\na => b\n", "line 3: wanted a question, got 'Why'"),
        ("! Why?\n", "line 3: wanted `! name: question`, got"),
        ("! name: Q?\n? Why?\na => b\n", "wanted `! name: question`, got"),
        ("a => b\n? B?\nc => d\n", "line 3: wanted '@@ '"),
        ("? A?\na => b\n? B?\nc => d\n", "wanted a line that begins with"),
        ("? A?\n- a\nb\n+ c\n", "wanted a line that begins with '- ', .* got 'b'"),
        ("? A?\n- a\n+x = 1\n", r"wanted a line that begins with '- ', .* got '\+x = 1'"),
        ("? A?\n+ y = 2\n", "nothing says where 'y = 2' goes"),
        ("? A?\n => x\n", "nothing stands before the arrow to 'x'"),
        ("? A? [1.5; hooks]\na => b\n", r"wanted \[points: numbers any\], got \[1.5; hooks\]"),
        ("? A? [hooks-left]\na => b\n", r"got \[hooks-left\]"),
        ("? A? [2nd_pass]\na => b\n", r"got \[2nd_pass\]"),
        ("? A? [1.5.2]\na => b\n", r"got \[1.5.2\]"),
        ("? A?\na => b\n\n@@ u01-other\n? B?\na => b\n", "wanted `@@ exercise` and an empty line"),
        ("? A?\na => b\n\n@@ u01-total\n\n? B?\na => b\n", "there is a section '@@ u01-total' al"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_line(file, text, words):
    with pytest.raises(MistakeFileError, match=words):
        sections_of(file(text))


@pytest.mark.parametrize(("piece", "count"), [("no such text", 0), ("count +=", 2)])
def test_a_patch_that_does_not_fit_once_is_refused_by_its_line(file, piece, count):
    (patch,) = patches(file(f"? Why?\n{piece} => 1\n"))
    words = rf"line 3: the model answer has '{re.escape(piece)}' {count} times, not once"
    with pytest.raises(MistakeFileError, match=words):
        patch.applied(SOURCE)


def test_what_stands_before_the_first_section_is_refused(tmp_path):
    path = tmp_path / "mistakes.diff"
    path.write_text("? Why?\na => b\n", encoding="utf-8")
    with pytest.raises(MistakeFileError, match="line 1: wanted `@@ exercise` first"):
        sections_of(path)


def test_blanks_at_the_end_of_a_line_change_nothing(file):
    (one, two) = patches(file("? Why? \n2 * rows => rows\nor \ncount += 1 => count += 2\n"))
    assert (one.hint, len(two.changes)) == ("Why?", 1)


def test_a_hunk_fits_whole_lines_alone():
    assert Change("count += 1", "pass", is_hunk=True).candidates(SOURCE) == [
        SOURCE.replace("count += 1", "pass")
    ]
    assert Change("count +=", "pass", is_hunk=True).candidates(SOURCE) == []


def test_the_text_of_one_exercise_is_its_own():
    path = ROOT / "solutions" / "01_transformer_flops" / "mistakes.diff"
    one, other = (text_of(path, f"u01-{name}") for name in ("matmul-flops", "model-flops"))
    assert "Your backward pass is half." in one
    assert "Your backward pass is half." not in other
    assert text_of(path, "u01-none") == text_of(path.with_name("none"), "u01-none") == ""
