"""Sanitize what students wrote before nbgrader's pages show it: no script, no style, no overlay.

nbgrader's templates put markdown and names into their pages unescaped, and a script in them would
have the rights of the person who grades. `nbgrader_config.py` names the filter and the
preprocessor. Pictures inside the text and formulas are shown as JupyterLab shows them.
"""

import html
import re
from collections.abc import Iterable, Iterator
from typing import Any

from bleach.sanitizer import Cleaner
from mistune import HTMLRenderer
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbgrader.server_extensions.formgrader.base import BaseHandler
from tornado.web import HTTPError

from autograder.grading.shown import mathml

TAGS = {
    *("a", "blockquote", "br", "code", "del", "details", "div", "em", "hr", "img", "li", "ol", "p"),
    *("pre", "span", "strong", "sub", "summary", "sup", "ul"),
    *("table", "tbody", "td", "th", "thead", "tr"),
    *("h1", "h2", "h3", "h4", "h5", "h6"),
    *mathml.ATTRIBUTES,
}
PICTURE = re.compile(r"data:image/(?:png|svg\+xml);base64,[A-Za-z0-9+/]+={0,2}")
STAND_IN = re.compile(r"picture-inside-\d{1,4}")
# The pages' style sheet removes the padding of tables and the triangle of summaries.
STYLED = {
    "<img ": '<img style="max-width: 100%" ',
    "<summary>": '<summary style="display: list-item; cursor: pointer">',
    "<table>": '<table class="table table-condensed" style="width: auto">',
}
MAX_CHARACTERS = 20_000  # of markdown without its pictures: its patterns take long on long texts
# Patterns of markdown and of code look for the end of such a run from each of its characters.
ENDLESS_BLANKS = re.compile(r"\s{200}")
MAX_FORMULA_CHARACTERS = 200_000  # of MathML in a text; LaTeX beyond appears as it is
FORBIDDEN_IN_NAMES = frozenset('<>"\\')
IN_ADDRESSES = ("student_id", "assignment_id", "notebook_id")

_render = BaseHandler.render
_coloured = Highlight2HTML(pygments_lexer="python3")


def markdown2html(source: str) -> str:
    """Markdown as HTML without active content; other tags, and long texts, appear as they are."""
    pictures = dict(enumerate(PICTURE.findall(source)))
    numbers = iter(pictures)
    short = PICTURE.sub(lambda _: f"picture-inside-{next(numbers)}", source)
    if _is_endless(short):
        return _as_it_is(source)
    page = MarkdownWithMath(renderer=_Renderer()).render(short)
    cleaner = Cleaner(TAGS, ATTRIBUTES, filters=[_shown])
    sanitized = str(cleaner.clean(page))
    for tag, styled in STYLED.items():
        sanitized = sanitized.replace(tag, styled)
    return STAND_IN.sub(lambda m: pictures.pop(int(m[0].split("-")[-1]), m[0]), sanitized)


def highlight_code(source: str, language: str = "", metadata: Any = None) -> str:
    """A cell's code as HTML, coloured as Python; long code appears as it is.

    IPython's own magics have no colours: their patterns take the square of the length.
    """
    if _is_endless(source):
        return _as_it_is(source)
    return str(_coloured(source))


class _Renderer(IPythonRenderer):
    """Renders formulas as MathML, and leaves raw HTML to the cleaner."""

    def __init__(self) -> None:
        super().__init__(escape=False, exclude_anchor_links=True)
        self._space_left = MAX_FORMULA_CHARACTERS

    def inline_math(self, body: str) -> str:
        return self._formula(body, "inline") or str(super().inline_math(body))

    def block_math(self, body: str) -> str:
        return self._formula(body, "block") or str(super().block_math(body))

    def latex_environment(self, name: str, body: str) -> str:
        whole = f"\\begin{{{name}}}{body}\\end{{{name}}}"
        return self._formula(whole, "block") or str(super().latex_environment(name, body))

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return HTMLRenderer.image(self, text, url, title)  # another one stops at attachments

    def _formula(self, latex: str, display: str) -> str | None:
        formula = mathml.from_latex(latex, display) if self._space_left > 0 else None
        self._space_left -= len(formula or "")
        return formula


def _is_of_link(tag: str, name: str, value: str) -> bool:
    return name == "title" or (name == "href" and not STAND_IN.search(value))


def _is_of_picture(tag: str, name: str, value: str) -> bool:
    if name == "src":
        return bool(STAND_IN.fullmatch(value))
    return name == "alt" or (name == "width" and bool(re.fullmatch(r"\d{1,4}", value)))


ATTRIBUTES = {
    "a": _is_of_link,
    "details": ["open"],
    "img": _is_of_picture,
    **dict.fromkeys(mathml.ATTRIBUTES, mathml.is_allowed),
}


def _shown(source: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What is left of a page without the pictures that lost their source."""
    for token in source:
        if token.get("name") != "img" or (None, "src") in token["data"]:
            yield token


def _is_endless(text: str) -> bool:
    return len(text) > MAX_CHARACTERS or bool(ENDLESS_BLANKS.search(text))


def _as_it_is(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


class PlainNames(Preprocessor):
    """Escapes the names of students and their raw cells, which the templates take for HTML."""

    def preprocess(
        self, notebook: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Escape them."""
        for cell in notebook.cells:
            if cell.cell_type == "raw":
                cell.source = _as_it_is(cell.source)
        for name in ("student", "first_name", "last_name", "notebook_path"):
            if resources.get(name):
                resources[name] = html.escape(resources[name])
        return notebook, resources


def render(handler: BaseHandler, template: str, **values: Any) -> str:
    """Render one of formgrader's pages.

    Raises:
        HTTPError: If a name in its address holds HTML.
    """
    if any(FORBIDDEN_IN_NAMES & set(values.get(name, "")) for name in IN_ADDRESSES):
        raise HTTPError(404)
    return str(_render(handler, template, **values))


def use() -> None:
    """Make formgrader render its pages with this function."""
    BaseHandler.render = render
