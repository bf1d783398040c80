"""Excerpts of PyTorch: they stand in the installed release, and what is said of them holds."""

import pytest

from course_utils.instruments.installed_source import FOLDER, installed_lines
from course_utils.show.torch_source import DDP, DDP_SOURCE, FSDP_SOURCE, Excerpts


@pytest.mark.parametrize("excerpt", [*DDP_SOURCE, *FSDP_SOURCE], ids=lambda each: each.question)
def test_quoted_lines_stand_where_the_page_says(excerpt):
    quoted = excerpt.lines()
    installed = (FOLDER / quoted.file).read_text(encoding="utf-8").splitlines()
    there = installed[quoted.line - 1 :][: excerpt.num_lines]
    assert [line.strip() for line in there] == [line.strip() for line in quoted.text.splitlines()]
    assert excerpt.question.endswith("?")


def test_a_line_that_is_not_there_once_is_refused():
    for line, count in (("no such line", 0), ("else:", "")):
        with pytest.raises(ValueError, match=f"{count}.* times, not once"):
            installed_lines(DDP, line)


def test_a_page_shows_question_place_and_lines():
    table = Excerpts(DDP_SOURCE)
    for each in DDP_SOURCE:
        assert each.question in table._repr_html_()
        assert f"{each.file}:{each.lines().line}" in repr(table)
