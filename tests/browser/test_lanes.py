"""The script of the lanes in a real browser; Python answers behind a model of the page."""

from pathlib import Path

import pytest

from course_utils.records.traces import recorded_trace
from course_utils.show import trace_lanes
from course_utils.show.lanes import viewer as module

from .fixtures import PICTURES
from .widget_page import page_of, tell

pytestmark = pytest.mark.browser

FOLDER = Path(module.__file__).parent
STATE = ("svg", "facts", "whole", "view", "pointed", "sizes")


@pytest.fixture
def viewer():
    return trace_lanes(recorded_trace("h100x8_nanogpt_8ranks"), "Eight ranks.")


@pytest.fixture
def page(browser, viewer):
    with page_of(browser, viewer, STATE, FOLDER / "lanes.js") as page:
        yield page


def answer(page, viewer):
    """Give Python what the page saved, and the page what Python says to it."""
    saved = page.evaluate("window.saved")
    viewer.view = saved["view"]
    viewer.pointed = saved["pointed"] or viewer.pointed
    tell(page, viewer, ("svg", "facts"))


def test_keys_zoom_and_move_within_the_trace(page, viewer):
    first, last = viewer.whole
    width = last - first
    page.locator(".tl-picture").focus()
    page.keyboard.press("+")
    assert page.evaluate("saved.view") == [first + width / 4, last - width / 4]
    page.keyboard.press("ArrowRight")
    assert page.evaluate("saved.view") == [first + 3 * width / 8, last - width / 8]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # no further than the end
    assert page.evaluate("saved.view") == [last - width / 2, last]
    answer(page, viewer)
    page.screenshot(path=PICTURES / "lanes.png")
    page.keyboard.press("-")
    assert page.evaluate("saved.view") == [first, last]
    page.keyboard.press("=")
    page.keyboard.press("0")
    assert page.evaluate("saved.view") == [first, last]


def test_keys_and_clicks_tell_what_runs(page, viewer):
    page.locator(".tl-picture").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    answer(page, viewer)
    assert page.locator("[role=status]").text_content().startswith("rank 0, stream 23: nccl")
    box = page.locator(".tl-picture svg").bounding_box()
    sizes, scale = viewer.sizes, box["width"] / 980
    x = scale * (sizes["left"] + (980 - sizes["left"]) / 2)
    y = scale * (sizes["top"] + 2.5 * sizes["row"])
    page.mouse.click(box["x"] + x, box["y"] + y)
    answer(page, viewer)
    assert page.locator("[role=status]").text_content().startswith("rank 1, gpu:compute: ")


def test_the_wheel_scrolls_the_page_until_one_clicks_and_a_drag_moves(page, viewer):
    box = page.locator(".tl-picture svg").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.wheel(0, -100)
    page.wait_for_timeout(100)
    assert page.evaluate("window.saved") is None
    page.locator(".tl-picture").focus()
    page.mouse.wheel(0, -100)
    page.wait_for_function("window.saved")
    start, end = page.evaluate("saved.view")
    assert end - start == pytest.approx((viewer.whole[1] - viewer.whole[0]) / 2)
    page.mouse.down()
    page.mouse.move(middle[0] - 100, middle[1])
    page.mouse.up()
    moved = page.evaluate("saved.view")
    assert moved[0] > start and moved[1] - moved[0] == pytest.approx(end - start)


def test_buttons_do_what_keys_do(page, viewer):
    page.get_by_role("button", name="zoom in").click()
    assert page.evaluate("saved.view[1] - saved.view[0]") < viewer.whole[1] - viewer.whole[0]
    page.get_by_role("button", name="show all").click()
    assert page.evaluate("saved.view") == viewer.whole


def test_a_view_that_is_gone_listens_no_longer(page):
    page.evaluate("stop()")
    assert page.evaluate("numHandlers()") == 0
