import nbformat
import pytest

from autograder.authoring import reading_time
from autograder.authoring.reading_time import Length

text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
STUB = "def f(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION\n"


def test_words_are_those_that_one_reads():
    cells = [text('<div style="a b c">\n\n**Two** words: $x + y$\n\n| `three` | |\n</div>')]
    assert reading_time.length(cells) == Length(words=3, given_lines=0)


def test_lines_are_those_that_are_given_and_seen():
    folded = code("# Figure\n1 + 1", metadata={"folded": True})
    released = code("# Figure\n1 + 1", metadata={"jupyter": {"source_hidden": True}})
    setup = code("import torch", metadata={"setup": True})
    cells = [code("a = 1\n\nb = 2"), code(STUB), folded, released, setup]
    assert reading_time.length(cells).given_lines == 2 + 2  # of the stub its first and last line


def test_extras_are_not_core():
    cells = [text("# Unit"), text("## Extras\nMore."), code("1"), text("## Recap")]
    assert [cell.source for cell in reading_time.core(cells)] == ["# Unit", "## Recap"]


LONG = {  # words, lines and minutes of cards of a unit as it was, and what a walk took
    (3245, 266, 67): 110,
    (3865, 327, 90): 140,
    (5326, 473, 68): 155,
    (5073, 582, 77): 180,
    (3743, 386, 85): 150,
    (4701, 457, 86): 140,
    (3733, 492, 92): 160,
    (3026, 58, 86): 118,
}
SHORT = {
    (2279, 122, 67): 111,
    (2627, 97, 70): 116,
    (2964, 86, 55): 105,
    (2970, 111, 69): 112,
    (2798, 73, 65): 109,
    (2639, 80, 67): 110,
    (2729, 77, 71): 107,
}


@pytest.mark.parametrize(("walks", "error"), [(LONG, 25), (SHORT, 15)], ids=["long", "short"])
def test_minutes_meet_those_of_the_walks(walks, error):
    for (words, lines, cards), minutes in walks.items():
        assert abs(Length(words, lines).minutes(cards) - minutes) <= error
