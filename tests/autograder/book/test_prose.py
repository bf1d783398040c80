"""Links in prose: which words become links, and what is left as it is."""

import pytest

from autograder.book.glossary import spellings
from autograder.book.prose import Linker

GLOSSARY = """# Words

% also: gradient accumulation = accumulation

::::{glossary}
bubble
  A time. Unit 12.

gradient accumulation
  Several micro-batches. Unit 08.

hardware FLOPs utilisation (HFU)
  A share. Unit 05.
::::
"""


@pytest.fixture
def linker():
    units = {"03": "03_memory.ipynb", "09": "09_data.ipynb"}
    return Linker(units, ("S1", "E12"), spellings(GLOSSARY))


def test_a_term_has_its_other_spellings():
    assert spellings(GLOSSARY) == {
        "bubble": "bubble",
        "gradient accumulation": "gradient accumulation",
        "accumulation": "gradient accumulation",
        "hardware flops utilisation": "hardware FLOPs utilisation (HFU)",
        "hfu": "hardware FLOPs utilisation (HFU)",
    }


def test_units_and_lecture_items_become_links(linker):
    assert linker.linked("As in units 03, 09 and 14 (S1, E12, S19).") == (
        "As in units [03](03_memory.ipynb), [09](09_data.ipynb) and 14 "
        "({ref}`S1 <lecture-s1>`, {ref}`E12 <lecture-e12>`, S19)."
    )


def test_a_word_is_linked_at_its_first_place_under_its_longest_spelling(linker):
    linked = linker.linked("Gradient accumulation fills **bubbles**; accumulation, a bubble.")
    assert linked == (
        "{term}`Gradient accumulation <gradient accumulation>` fills "
        "**{term}`bubbles <bubble>`**; accumulation, a bubble."
    )
    assert linker.linked("A bubble in another cell.") == "A bubble in another cell."


@pytest.mark.parametrize(
    "kept",
    [
        "`bubble = 1`",
        "```\nunit 03: bubble\n```",
        "$bubble$ and $$\nbubble\n$$",
        '<img alt="a bubble of unit 03">',
        "[a bubble](bubble.md)",
        "# A bubble (S1)",
    ],
)
def test_code_formulas_tags_links_and_headings_are_left(linker, kept):
    assert linker.linked(kept) == kept


def test_what_follows_a_heading_has_its_links(linker):
    assert linker.linked("## A bubble\n\nA bubble.") == "## A bubble\n\nA {term}`bubble <bubble>`."
