"""Sanitize what students wrote before nbgrader's pages show it: no script, no style, no button.

nbgrader's templates put markdown and names into their pages unescaped, and a script in them would
have the rights of the person who grades. `nbgrader_config.py` names the filter and the
preprocessor.
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
# The pages' style sheet removes the padding of tables and the triangle of summaries.
STYLED = {
    "<summary>": '<summary style="display: list-item; cursor: pointer">',
    "<table>": '<table class="table table-condensed" style="width: auto">',
}
FORBIDDEN_IN_NAMES = frozenset('<>"\\')
IN_ADDRESSES = ("student_id", "assignment_id", "notebook_id")

_render = BaseHandler.render


def markdown2html(source: str) -> str:
    """Markdown as HTML without active content; other tags appear as text."""
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    page = MarkdownWithMath(renderer=renderer).render(source)
    sanitized = str(bleach.clean(page, tags=TAGS, attributes=ATTRIBUTES))
    for tag, styled in STYLED.items():
        sanitized = sanitized.replace(tag, styled)
    return sanitized


class PlainNames(Preprocessor):
    """Escapes the names of students."""

    def preprocess(
        self, notebook: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Escape the names that formgrader puts into its page."""
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
