"""The book in a browser: it is searched, has a light and a dark look, and fetches only its own.

Pictures of some pages are kept in `test-results/browser/`.
"""

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.notebooks.filling import UNITS
from tests.sampling import some_units

from .fixtures import LAPTOP, PICTURES

pytestmark = pytest.mark.browser

# The least that WCAG 2 asks of text, level AA.
CONTRAST = 4.5
SHEETS = """() => [...document.querySelectorAll(
    '.bd-content .text_html:not(:has(table)), .exercise')].map(
        each => getComputedStyle(each).backgroundColor)"""
COLOURS = """() => ['color', 'backgroundColor'].map(
    name => getComputedStyle(name == 'color' ? document.querySelector('.bd-article p')
                                             : document.body)[name])"""


class Silent(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(book):
    """Address of the book on a plain web server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=book))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["light", "dark"])
def page(request, browser, site):
    """A window in one of the two looks, with what it fetched from elsewhere and its errors."""
    context = browser.new_context(viewport=LAPTOP, color_scheme=request.param)
    page = context.new_page()
    page.look, page.fetched, page.errors = request.param, [], []
    page.on("request", lambda sent: page.fetched.append(sent.url))
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    yield page
    assert page.errors == []
    assert [url for url in page.fetched if not url.startswith((site, "data:"))] == []
    context.close()


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(…)`, by WCAG 2."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def opened(page, site, name: str) -> None:
    page.goto(f"{site}/{name}.html")
    page.screenshot(path=PICTURES / f"book {name.replace('/', ' ')} {page.look}.png")


@pytest.mark.parametrize("unit", some_units())
def test_text_is_legible_and_outputs_have_no_sheet_of_the_other_look(page, site, unit):
    opened(page, site, f"units/{unit}")
    text, ground = map(luminance, page.evaluate(COLOURS))
    light, dark = max(text, ground), min(text, ground)
    assert (light + 0.05) / (dark + 0.05) >= CONTRAST
    assert (ground > text) == (page.look == "light")
    sheets = page.evaluate(SHEETS)
    assert sheets
    opaque = [each for each in sheets if "rgba" not in each and "/" not in each]
    assert [each for each in opaque if (luminance(each) > 0.5) != (page.look == "light")] == []


def test_the_page_is_not_wider_than_a_phone(browser, site):
    phone = browser.new_page(viewport={"width": 390, "height": 844})
    for name in ("index", "lectures", "glossary", *(f"units/{unit}" for unit in UNITS)):
        phone.goto(f"{site}/{name}.html")
        wide = phone.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"{name}: {wide} pixels"
    phone.close()


def test_a_word_is_found(page, site):
    opened(page, site, "index")
    page.goto(f"{site}/search.html?q=all-reduce")
    page.wait_for_selector("#search-results li")
    hits = page.locator("#search-results li a").all_inner_texts()
    page.screenshot(path=PICTURES / f"book search {page.look}.png")
    assert any("How do eight devices share one batch?" in hit for hit in hits)
    assert "Glossary" in hits


def test_what_was_measured_waits_for_a_click(page, site):
    opened(page, site, f"units/{UNITS[1]}")
    measured = page.locator("details", has_text="Measured: the backward pass of a first layer")
    assert measured.count() == 1
    output = measured.locator(".cell_output")
    assert not output.is_visible()
    measured.locator("summary").click()
    assert output.is_visible()


def test_a_word_leads_to_the_glossary_and_an_exercise_has_an_address(page, site):
    opened(page, site, f"units/{UNITS[1]}")
    page.locator("a.reference", has_text="Activation").first.click()
    assert page.url.endswith("glossary.html#term-activation")
    page.goto(f"{site}/lectures.html")
    page.locator("#lecture-s5 ~ ul a, section:has(#lecture-s5) a.reference").filter(
        has_text="FLOPs of a gated"
    ).first.click()
    assert page.url.endswith(f"units/{UNITS[1]}.html#u01-gated-mlp-flops")
