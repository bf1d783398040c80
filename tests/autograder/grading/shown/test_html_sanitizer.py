"""Markdown and names on nbgrader's pages; `tests/browser` looks at the pages themselves."""

import html
import re
import string
import time
from itertools import pairwise

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from traitlets.config.loader import PyFileConfigLoader

from autograder.grading.shown import mathml
from autograder.grading.shown.html_sanitizer import MAX_CHARACTERS, highlight_code, markdown2html
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
        "<img alt='nothing'><img src='data:text/html;base64,AAAA'><img src='data:image/png,x'>",
        "![pasted](attachment:image.png)",
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


CARD = '<div style="border: 1px solid #0072b266; position: fixed"><span style="color: white">'
PICTURE = '<img alt="a layer" width="980" src="data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=">'


def test_a_card_is_text_without_its_frame():
    shown = markdown2html(f"{CARD}2 points</span>\n\n### Bytes of $x$\n\n- one\n\n</div>\n\nbelow")
    assert "<div><span>2 points</span>" in shown
    assert "<h3>Bytes of <math" in shown
    assert "<li>one</li>" in shown
    assert shown.count("</div>") == 1


def test_a_picture_is_put_in_once_however_often_its_stand_in_is_named():
    picture = f"data:image/png;base64,{'A' * 100_000}"
    page = markdown2html(f"![a]({picture})\n" + "![b](picture-inside-0) " * 500)
    assert page.count(picture) == 1


def test_code_is_coloured_as_python_and_endless_code_is_shown_as_it_is():
    page = highlight_code("%time\nreturn x < 1", metadata={})
    assert '<span class="k">return</span>' in page and "&lt;" in page
    for endless in ("x" * 20_001, "<" + " " * 200):
        assert highlight_code(endless) == f"<pre>{html.escape(endless)}</pre>"


def test_pictures_inside_the_text_are_shown_however_long():
    assert PICTURE.removeprefix("<img") in markdown2html(PICTURE)
    source = f"data:image/png;base64,{'iVBORw0KGgo' * 10_000}="
    shown = markdown2html(f"![one]({source}) and `{source}`")
    assert f'src="{source}" alt="one"' in shown
    assert f"<code>{source}</code>" in shown
    assert markdown2html("picture-inside-0") == "<p>picture-inside-0</p>\n"


def test_what_a_student_leaves_open_or_closes_too_often_stays_in_the_cell():
    assert markdown2html("</div></div>text").count("</div>") == 0
    assert markdown2html("<div><div>\n\ntext").count("</div>") == 2


@pytest.mark.parametrize(
    "source",
    [
        '<a href="data:image/svg+xml;base64,AAAA">x</a>',
        '<a href=" data:image/png;base64,AAAA">x</a>',
        "[x](data:image/png;base64,AAAA)",
        "[x](data:text/html;base64,AAAA)",
    ],
)
def test_no_link_leads_to_data(source):
    assert "<a>x</a>" in markdown2html(source)


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("where $a<b$", ['<math display="inline">', "<mo>&lt;</mo>"]),
        ("$$\nx_1 \\qquad y\n$$", ['<math display="block">', '<mspace width="2em">']),
        ("so $$x^2$$ then", ['so <math display="block">', "</math> then"]),
        ("\\begin{align*}\na &= b\n\\end{align*}", ['<math display="block">', "<mtable"]),
        ("| $x$ |\n|---|\n| $y$ |", ["<th><math", "<td><math"]),
        (r"$\mathrm{softmax}\Big(x\Big)$", ['mathvariant="normal"', 'minsize="1.623em"']),
        (r"$\text{if } x \text{ is } \tfrac12$", ["<mtext>if\xa0</mtext>", "<mfrac>"]),
    ],
)
def test_latex_becomes_mathml(source, parts):
    shown = markdown2html(source)
    assert "$" not in shown
    assert "\\" not in shown
    assert all(part in shown for part in parts), shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (r"\$5 and \$6", "$5 and $6"),
        ("`$x$`", "<code>$x$</code>"),
        ("```\n$$x$$\n```", "<pre><code>$$x$$\n</code></pre>"),
        (r"$\frac{$", r"$\frac{$"),
        (r"$$\left( x$$", r"$$\left( x$$"),
        ("$x^$", "$x^$"),
        ("$x_1_2 <b>$", "$x_1_2 &lt;b&gt;$"),
        (r"$\def\a{\b\b}\a$", r"$\def\a{\b\b}\a$"),
    ],
)
def test_what_is_no_formula_is_shown_as_it_is(source, shown):
    assert shown in markdown2html(source)


@pytest.mark.parametrize(
    "latex",
    [
        r"\text{<script>alert(1)</script>}",
        r"\text{&lt;script&gt;alert(1)&lt;/script&gt;}",
        r"\href{javascript:alert(1)}{x}",
        r"\style{position: fixed; top: 0}{x}",
        r"\class{modal-backdrop}{x}",
        r"\hspace{-90em} x \kern-90em \rule{90em}{90em}",
        r"\raise{90em}{x} \moveleft{90em}{x} \llap{x}",
        r"\Huge \Huge \Huge x",
        r"\unicode{3c}script\unicode{3e}",
        r"\colorbox{url(https://example.org)}{x}",
    ],
)
def test_a_formula_does_nothing_and_stays_in_its_place(latex):
    tags = re.findall("<[^>]*>", markdown2html(f"${latex}$"))
    assert '<math display="inline">' in tags
    assert all(re.fullmatch(r"</?m?[a-z]+( (display|mathvariant)=\"[a-z]+\")?>", t) for t in tags)
    assert not any("script" in tag for tag in tags)


def test_a_formula_written_as_tags_is_held_to_the_same():
    source = '<math onclick="x" style="position: fixed"><mspace width="-9em"/><mi>x</mi></math>'
    shown = markdown2html(f"{source}<maction actiontype='toggle'>y</maction>")
    assert "<math><mspace></mspace><mi>x</mi></math>" in shown
    assert "<maction" not in shown


DOUBLED = pairwise(string.ascii_lowercase)  # each letter stands for two of the one before
HOSTILE_LATEX = [
    "{" * 10_000,
    "{" * 1_900,
    "{" * 900 + "x" + "}" * 900,
    r"\sqrt" * 390 + "x",
    r"\left(" * 160 + r"\right)" * 160,
    r"\LaTeX" * 320,
    r"\operatorname{" + " *" * 980,
    r"\begin{align}" + r"\\" * 900 + r"\end{align}",
    r"\def\a{x}" + "".join(rf"\def\{b}{{{{\{a}}}{{\{a}}}}}" for a, b in DOUBLED) + r"\z",
    r"\sideset{_1^2}{_3^4}" * 90 + r"\sum",
]


@pytest.mark.parametrize("latex", HOSTILE_LATEX, ids=lambda latex: latex[:12])
def test_hostile_latex_takes_little_time_and_space(latex):
    source = (f"${latex}$ " * MAX_CHARACTERS)[:MAX_CHARACTERS]
    start = time.process_time()
    shown = markdown2html(source)
    assert time.process_time() - start < 10  # some two seconds, on a slow machine
    assert len(shown) < 500_000


def test_formulas_beyond_the_space_for_them_are_shown_as_they_are():
    shown = markdown2html("$x$ " * (MAX_CHARACTERS // 4))
    assert shown.count("<math") > 1_000
    assert shown.endswith("$x$</p>\n")


@pytest.mark.parametrize("latex", ["x" * (mathml.MAX_CHARACTERS + 1), "{" * 41 + "}" * 41])
def test_long_and_deep_formulas_are_not_converted(latex):
    assert mathml.from_latex(latex, "inline") is None
    assert mathml.from_latex(latex[1:-1], "inline")


def test_a_long_text_is_shown_as_it_is():
    assert markdown2html("*<b>" * 6_000) == "<pre>" + "*&lt;b&gt;" * 6_000 + "</pre>"


def test_what_the_course_and_its_answers_write_is_shown_whole():
    num_texts = 0
    for unit in UNITS:
        cells = [cell.source for cell in released(unit).cells if cell.cell_type == "markdown"]
        texts = [text for text in solved(unit).values() if text.startswith("<!--")]
        assert cells
        num_texts += len(texts)
        for source in (*cells, *texts):
            shown = markdown2html(source)
            for tag in ("p", "li", "table", "details", "summary", "code", "h2", "sub", "br"):
                assert f"&lt;{tag}&gt;" not in shown, source
    assert num_texts >= len(UNITS) - 1  # all but the clinic ask for some
    assert "<pre>" in markdown2html("```python\nx = 1\n```")


def test_a_summary_has_its_mark_and_a_table_its_space():
    assert "list-item" in markdown2html("<details><summary>more</summary>text</details>")
    assert 'class="table' in markdown2html("| a |\n|---|\n| b |")
    assert "<summary>" in markdown2html("`<summary>`").replace("&lt;", "<").replace("&gt;", ">")
    assert "list-item" not in markdown2html("`<summary>`")


@pytest.fixture
def page_of(monkeypatch):
    """A function that gives the page of a cell, as nbgrader is configured, and its resources."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    exporter = HTMLExporter(config=config, template_name="classic")

    def of(cell, **resources):
        notebook = nbformat.v4.new_notebook(cells=[cell])
        return exporter.from_notebook_node(notebook, resources=resources)

    return of


def test_the_configuration_has_them_used(page_of):
    names = {"student": "<b>", "first_name": "O'Neil", "last_name": None}
    page, resources = page_of(nbformat.v4.new_markdown_cell("<svg onload=x>"), **names)
    assert "<svg onload" not in page
    assert (resources["student"], resources["first_name"]) == ("&lt;b&gt;", "O&#x27;Neil")


HOSTILE = '<a class="modal-backdrop" style="top: 0" id="x" href="https://example.org">all</a>'


@pytest.mark.parametrize("metadata", [{}, {"raw_mimetype": "text/html"}, {"format": "text/html"}])
@pytest.mark.parametrize("kind", ["raw", "markdown"])
def test_no_cell_lays_itself_over_the_page(kind, metadata, page_of):
    page, _ = page_of(getattr(nbformat.v4, f"new_{kind}_cell")(HOSTILE, metadata=metadata))
    body = page[page.index("<body") :]
    tags = re.findall(r"<\w[^>]*>", body)
    assert "all" in body
    assert not any(word in tag for tag in tags for word in ("backdrop", "style=", 'id="x"'))
    assert ("<a" not in body) == (kind == "raw")
