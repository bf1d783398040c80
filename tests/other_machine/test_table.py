"""The page that lists what is compared between machines says what the packs say."""

from pathlib import Path

from tests.other_machine.table import page


def test_the_page_is_that_of_the_packs():
    written = Path(__file__).parents[2] / "docs" / "other-machines.md"
    assert written.read_text("utf-8") == page(), (
        "python -m tests.other_machine.table writes it anew"
    )
