"""What students wrote is only shown on nbgrader's pages: no script, no style, no button of theirs.

nbgrader's templates put markdown and names into their pages as they come, and a script in them has
the rights of the person who grades. `nbgrader_config.py` names the filter and the preprocessor.
"""

import html
from typing import Any

import bleach
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbgrader.server_extensions.formgrader.base import BaseHandler
from tornado.web import HTTPError

TAGS = {
    *("a", "blockquote", "br", "code", "del", "details", "div", "em", "hr", "li", "ol", "p"),
    *("pre", "span", "strong", "sub", "summary", "sup"),
    *("table", "tbody", "td", "th", "thead", "tr", "ul"),
    *(f"h{level}" for level in range(1, 7)),
}
ATTRIBUTES = {"a": ["href", "title"], "details": ["open"]}
# The pages' style sheet leaves these without space and without the mark that says "fold me out".
DRESSED = {
    "<summary>": '<summary style="display: list-item; cursor: pointer">',
    "<table>": '<table class="table table-condensed" style="width: auto">',
}
NO_NAME = frozenset('<>"\\')
IN_ADDRESSES = ("student_id", "assignment_id", "notebook_id")

_render = BaseHandler.render


def markdown2html(source: str) -> str:
    """Markdown as HTML that can only be read; other tags stand there as text."""
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    shown = MarkdownWithMath(renderer=renderer).render(source)
    harmless = str(bleach.clean(shown, tags=TAGS, attributes=ATTRIBUTES))
    for tag, dressed in DRESSED.items():
        harmless = harmless.replace(tag, dressed)
    return harmless


class PlainNames(Preprocessor):
    """Names of students stand in the page as text."""

    def preprocess(
        self, notebook: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Escape the texts with which formgrader fills its page."""
        for name in ("student", "first_name", "last_name", "notebook_path"):
            if resources.get(name):
                resources[name] = html.escape(resources[name])
        return notebook, resources


def render(handler: BaseHandler, template: str, **values: Any) -> str:
    """One of formgrader's pages, unless a name in its address would be more than a text there.

    Raises:
        HTTPError: If it would.
    """
    if any(NO_NAME & set(values.get(name, "")) for name in IN_ADDRESSES):
        raise HTTPError(404)
    return str(_render(handler, template, **values))


def use() -> None:
    """Have formgrader make its pages so."""
    BaseHandler.render = render
