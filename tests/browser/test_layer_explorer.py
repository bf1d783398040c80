"""The script of the layer explorer in a real browser; Python answers behind a model of the page."""

from pathlib import Path

import pytest

from course_utils.configs import gpt
from course_utils.show import layer_explorer
from course_utils.show.layer_diagram.saved import saved_by_name

from .fixtures import PICTURES
from .widget_page import page_of, tell

pytestmark = pytest.mark.browser

ANSWERS = ("reasons", "message", "verdicts")  # what Python says to the page
FOLDER = Path(layer_explorer.__code__.co_filename).parent


@pytest.fixture
def explorer():
    return layer_explorer(gpt(48, 3), 2, 5)


@pytest.fixture
def page(browser, explorer):
    names = ("svg", *ANSWERS, "marked", "asked")
    with page_of(browser, explorer, names, FOLDER / "layer_explorer.js") as page:
        yield page


def part(page, name):
    return page.locator(f'[data-name="{name}"]')


def answer(page, explorer):
    """Give Python what the page saved, and the page what Python says to it."""
    saved = page.evaluate("window.saved")
    explorer.marked, explorer.asked = saved["marked"], saved["asked"]
    tell(page, explorer, ANSWERS)


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
