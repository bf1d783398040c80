"""The pages of reading and the requests of their script, as handlers of a Jupyter server.

Every text is escaped, no inline script or style is allowed, and nothing is fetched from elsewhere.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from jinja2 import (
    ChoiceLoader,
    DictLoader,
    Environment,
    FileSystemLoader,
    PrefixLoader,
    StrictUndefined,
)
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from markupsafe import Markup
from tornado import web

from autograder import catalogue
from autograder.catalogue import Exercise, Unit
from autograder.grading.errors import GradingError
from autograder.grading.manual_grading.answers import Answers, cards_of, saved_comments
from autograder.grading.manual_grading.marks import ChangedMeanwhileError
from autograder.grading.shown.html_sanitizer import markdown2html

HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
TEMPLATES = Environment(
    loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)

SIDEBAR = """{% extends "nbgrader/gradebook_base.tpl" %}
{% block sidebar %}{{ super() }}
<li role="presentation">
<a href="{{ base_url }}/course/read/{{ assignment_id | default("") | e }}">Read by question</a></li>
{% endblock %}"""


def _load_jupyter_server_extension(server: Any) -> None:
    """Add the pages to a server that has formgrader, and to formgrader a link to them."""
    server.web_app.add_handlers(".*$", routes(server.web_app.settings["base_url"]))
    server.io_loop.add_callback(_link, server.web_app.settings)  # when formgrader is loaded too


def _link(settings: dict[str, Any]) -> None:
    if pages := settings.get("nbgrader_jinja2_env"):
        ours, stock = DictLoader({"gradebook_base.tpl": SIDEBAR}), pages.loader
        pages.loader = ChoiceLoader([ours, stock, PrefixLoader({"nbgrader": stock})])


def routes(base_url: str) -> list[tuple[Any, ...]]:
    """The handlers, below the base address of a server."""
    start = url_path_join(base_url, "course/read")
    return [
        (rf"{start}/static/(.*)", web.StaticFileHandler, {"path": HERE / "static"}),
        (rf"{start}/?", Page, {"name": "units"}),
        (rf"{start}/([\w-]+)", Page, {"name": "unit"}),
        (rf"{start}/([\w-]+)/([\w-]+)", Page, {"name": "exercise"}),
    ]


class Page(JupyterHandler):
    """A page of reading: the graded units, a unit's class, or the answers to an exercise."""

    def initialize(self, name: str) -> None:
        """Take what a route leads to."""
        self._name = name

    @property
    def content_security_policy(self) -> str:
        """Scripts and styles of this server alone."""
        return POLICY

    @web.authenticated
    async def get(self, *address: str) -> None:
        """Show the page."""
        try:
            self.finish(await asyncio.to_thread(self._page, *address))
        except GradingError as error:
            self.set_status(409)
            self.finish(self._rendered("sorry", {"sentence": str(error)}))

    @web.authenticated
    async def post(self, *address: str) -> None:
        """Change marks, all or none; the reply has the marks of all answers as they are now."""
        unit, exercise = _exercise(*address)
        body = self.get_json_body()
        changes = body.get("changes") if isinstance(body, dict) else None
        if not isinstance(changes, list):
            raise web.HTTPError(400, "Wanted a list of changes.")
        reply: dict[str, Any] = {"said": ""}
        answers = self._answers
        try:
            await asyncio.to_thread(answers.change, unit, exercise, changes)
        except ChangedMeanwhileError:
            self.set_status(409)
            reply["said"] = (
                "Somebody else has marked this meanwhile, so yours was not written: theirs stands "
                "beside the number, yours in the fields. Enter writes yours over theirs."
            )
        except GradingError as error:
            self.set_status(409)
            reply["said"] = str(error)
        try:
            now = await asyncio.to_thread(answers.to_read, unit, exercise)
            reply["answers"] = {each.graded.id: each.to_json() for each in now}
        except GradingError as error:
            self.set_status(503)
            reply |= {"said": str(error), "answers": {}}
        self.finish(json.dumps(reply))

    @property
    def _answers(self) -> Answers:
        """Those of formgrader's course; one for all requests, so that numbers stay."""
        formgrader = self.settings.get("nbgrader_formgrader")
        root = Path(formgrader.coursedir.root if formgrader else self.settings["server_root_dir"])
        known: dict[Path, Answers] = self.settings.setdefault("course_answers", {})
        return known.setdefault(root, Answers(root))

    def _page(self, *address: str) -> str:
        answers = self._answers
        if self._name == "units":
            waiting = {each: _waiting(answers, each) for each in answers.units()}
            return self._rendered("units", {"waiting": waiting})
        unit = _unit(address[0])
        if self._name == "unit":
            rows = answers.of_unit(unit)
            return self._rendered("unit", {"unit": unit, "rows": rows})
        _, exercise = _exercise(*address)
        rows = answers.of_unit(unit)
        found = [row[exercise.id] for row in rows.values() if exercise.id in row]
        written = [each for each in found if each.is_written]
        prompt = answers.prompt(unit, exercise)
        values = {
            "unit": unit,
            "exercise": exercise,
            "rows": rows,
            "cards": cards_of(written),
            "num_blank": len(found) - len(written),
            "rubric": prompt.rubric,
            "question": _markup(prompt.question),
            "model_answer": _markup(prompt.model_answer),
            "comments": saved_comments(written),
        }
        return self._rendered("exercise", values)

    def _rendered(self, name: str, values: dict[str, Any]) -> str:
        start = url_path_join(self.base_url, "course/read")
        return TEMPLATES.get_template(f"{name}.html.j2").render(
            start=start,
            formgrader=url_path_join(self.base_url, "formgrader/gradebook"),
            xsrf=self.xsrf_token.decode(),
            **values,
        )


def _markup(source: str) -> Markup:
    """Markdown of the course; the policy of the page allows no style inside it."""
    return Markup(re.sub(r' style="[^"]*"', "", markdown2html(source)))


def _waiting(answers: Answers, unit: Unit) -> int:
    rows = answers.of_unit(unit).values()
    return sum(each.graded.mark.waits for row in rows for each in row.values())


def _unit(name: str) -> Unit:
    """A unit by its number or folder."""
    for unit in catalogue.units():
        if name in (unit.number, unit.folder):
            return unit
    raise web.HTTPError(404)


def _exercise(unit_name: str, name: str) -> tuple[Unit, Exercise]:
    unit = _unit(unit_name)
    for exercise in unit.exercises:
        if exercise.id == name:
            return unit, exercise
    raise web.HTTPError(404)
