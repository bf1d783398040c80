"""The script of the layer explorer in a real browser; Python answers behind a model of the page."""

import json
from pathlib import Path

import pytest

from course_utils.configs import gpt
from course_utils.show import layer_explorer
from course_utils.show.layer_diagram.saved import saved_by_name

from .fixtures import PICTURES

pytestmark = pytest.mark.browser

ANSWERS = ("reasons", "message", "verdicts")  # what Python says to the page
FOLDER = Path(layer_explorer.__code__.co_filename).parent

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


@pytest.fixture
def explorer():
    return layer_explorer(gpt(48, 3), 2, 5)


@pytest.fixture
def page(browser, explorer):
    state = {name: getattr(explorer, name) for name in ("svg", *ANSWERS, "marked", "asked")}
    script, style = (
        (FOLDER / f"layer_explorer.{kind}").read_text("utf-8") for kind in ("js", "css")
    )
    page = browser.new_page(viewport={"width": 1040, "height": 640})
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content(PAGE.format(style=style, script=json.dumps(script), state=json.dumps(state)))
    page.wait_for_function("window.isReady")
    yield page
    page.close()
    assert not complaints


def part(page, name):
    return page.locator(f'[data-name="{name}"]')


def answer(page, explorer):
    """Give Python what the page saved, and the page what Python says to it."""
    saved = page.evaluate("window.saved")
    explorer.marked, explorer.asked = saved["marked"], saved["asked"]
    for name in ANSWERS:
        page.evaluate("([name, value]) => model.set(name, value)", [name, getattr(explorer, name)])


def test_a_click_marks_a_tensor_and_another_takes_the_mark_away(page, explorer):
    part(page, "u").click()
    part(page, "x_1").click()
    assert page.evaluate("saved.marked") == ["u", "x_1"]
    assert part(page, "u").get_attribute("aria-pressed") == "true"
    answer(page, explorer)
    assert page.inner_text(".ld-message") == explorer.message == "2 marked: 4.688 KiB."
    part(page, "u").click()
    assert page.evaluate("saved.marked") == ["x_1"]
    assert part(page, "u").get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("key", ["Enter", " "])
def test_keys_do_what_a_click_does(page, key):
    part(page, "x_1").focus()
    page.keyboard.press(key)
    assert page.evaluate("saved.marked") == ["x_1"]
    page.keyboard.press("Tab")
    page.keyboard.press(key)
    assert page.evaluate("saved.marked") == ["x_1"]
    assert page.inner_text(".ld-facts").startswith("LayerNorm: no matrix product; h + h = 96")


def test_verdicts_are_told_by_symbols_and_words(page, explorer):
    part(page, "z").click()
    part(page, "y_1").click()
    page.click("text=Ask the instrument")
    assert page.inner_text(".ld-message") == "Measuring …"
    answer(page, explorer)
    assert page.inner_text(".ld-message") == explorer.message
    for name, symbol, word in (("z", "✓", "right"), ("y_1", "✗", "extra"), ("u", "!", "missed")):
        assert part(page, name).locator(".ld-mark").text_content() == symbol
        assert part(page, name).get_attribute("aria-label").startswith(f"{word}: {name}: ")
    judged = page.locator("[data-verdict]:not([data-verdict=''])").count()
    assert judged == len(saved_by_name(explorer._run)) + 1
    assert page.locator(".ld-reasons li").all_text_contents() == explorer.reasons
    page.screenshot(path=PICTURES / "layer_explorer.png")


def test_clear_takes_all_away(page, explorer):
    part(page, "z").click()
    page.click("text=Ask the instrument")
    answer(page, explorer)
    page.click("text=Clear")
    assert page.evaluate("[saved.marked, saved.verdicts, saved.reasons]") == [[], {}, []]
    assert page.locator("[data-verdict='right'], [aria-pressed='true']").count() == 0


def test_a_view_that_is_gone_listens_no_more(page):
    assert page.evaluate("numHandlers()") == 3
    page.evaluate("stop()")
    assert page.evaluate("numHandlers()") == 0
