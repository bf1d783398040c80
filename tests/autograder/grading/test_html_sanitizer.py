"""Markdown and names on nbgrader's pages; `tests/browser` looks at the pages themselves."""

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from traitlets.config.loader import PyFileConfigLoader

from autograder.grading.html_sanitizer import markdown2html
from tests.notebooks.filling import ROOT, UNITS, released, solved


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        "text <img src=x onerror=alert(1)>",
        "<svg onload=alert(1)></svg>",
        "<style>body { display: none }</style>",
        "<iframe src='javascript:alert(1)'></iframe>",
        "<details open ontoggle=alert(1)>more</details>",
        "<a href='javascript:alert(1)' id='u00-view' class='full-credit'>link</a>",
        "[link](javascript:alert(1))",
        "![picture](https://example.org/who-reads-this.png)",
        "<p data-link='elsewhere' style='position: fixed'>text</p>",
        "$<img src=x onerror=alert(1)>$",
        "<b <script>alert(1)</script>",
    ],
)
def test_no_tag_or_attribute_that_does_something(source):
    shown = markdown2html(source)
    for part in ("<script", "<img", "<svg", "<style", "<iframe", "<b ", 'href="javascript'):
        assert part not in shown
    tags = [tag.split(">")[0] for tag in shown.split("<")[1:]]
    for attribute in ("onerror", "ontoggle", "id=", "class=", "style=", "data-"):
        assert not any(attribute in tag for tag in tags), shown


def test_what_the_course_and_its_answers_write_is_shown_whole():
    for unit in UNITS:
        cells = [cell.source for cell in released(unit).cells if cell.cell_type == "markdown"]
        texts = [text for text in solved(unit).values() if text.startswith("<!--")]
        assert cells
        assert texts
        for source in (*cells, *texts):
            for tag in ("p", "li", "table", "details", "summary", "code", "h2", "sub", "br"):
                assert f"&lt;{tag}&gt;" not in markdown2html(source), source
    assert "$a&lt;b$" in markdown2html("where $a<b$")
    assert "<pre>" in markdown2html("```python\nx = 1\n```")


def test_a_summary_has_its_mark_and_a_table_its_space():
    assert "list-item" in markdown2html("<details><summary>more</summary>text</details>")
    assert 'class="table' in markdown2html("| a |\n|---|\n| b |")
    assert "<summary>" in markdown2html("`<summary>`").replace("&lt;", "<").replace("&gt;", ">")
    assert "list-item" not in markdown2html("`<summary>`")


def test_the_configuration_has_them_used(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    exporter = HTMLExporter(config=config, template_name="classic")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("<svg onload=x>")])
    page, resources = exporter.from_notebook_node(
        notebook, resources={"student": "<b>", "first_name": "O'Neil", "last_name": None}
    )
    assert "<svg onload" not in page
    assert (resources["student"], resources["first_name"]) == ("&lt;b&gt;", "O&#x27;Neil")
