"""A page with one widget of the course, whose script runs against a model of Python's side."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

# As much of a widget's model as the script uses; `saved` is what Python would be sent.
PAGE = """
<meta charset="utf-8"><style>{style}</style><div id="here"></div>
<script type="module">
const script = new Blob([{script}], {{type: "text/javascript"}});
const widget = (await import(URL.createObjectURL(script))).default;
const [state, handlers] = [{state}, {{}}];
window.model = {{
  get: (name) => state[name],
  set(name, value) {{
    state[name] = value;
    (handlers[`change:${{name}}`] ?? []).forEach((handler) => handler());
  }},
  save_changes() {{ window.saved = structuredClone(state); }},
  on(event, handler) {{ (handlers[event] ??= []).push(handler); }},
  off(event, handler) {{ handlers[event] = handlers[event].filter((each) => each !== handler); }},
}};
window.stop = widget.render({{model: window.model, el: document.getElementById("here")}});
window.numHandlers = () => Object.values(handlers).flat().length;
window.isReady = true;
</script>
"""


@contextmanager
def page_of(browser: Browser, widget: Any, names: Iterable[str], script: Path) -> Iterator[Page]:
    """A page on which a widget is drawn; its script may raise no error until the page is closed.

    Args:
        browser: Of the test.
        widget: What has the state, in Python.
        names: Of the parts of the state that the script reads.
        script: The widget's own; its style lies beside it.
    """
    state = {name: getattr(widget, name) for name in names}
    style = script.with_suffix(".css").read_text("utf-8")
    quoted = json.dumps(script.read_text("utf-8"))
    page = browser.new_page(viewport={"width": 1040, "height": 640})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content(PAGE.format(style=style, script=quoted, state=json.dumps(state)))
    page.wait_for_function("window.isReady")
    yield page
    page.close()
    assert not complaints


def tell(page: Page, widget: Any, names: Iterable[str]) -> None:
    """Give the page what Python's side of the widget says now."""
    for name in names:
        page.evaluate("([name, value]) => model.set(name, value)", [name, getattr(widget, name)])
