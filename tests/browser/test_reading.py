"""Sixty texts of one exercise read by keys alone, and two readers at once.

The gradebook afterwards holds what was typed, and formgrader shows it. Pictures are kept in
`test-results/browser/`.
"""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autograder.grading.manual_grading.marks import Change, Mark, Marks
from tests.autograder.grading.manual_grading.graded_class import EXERCISE, UNIT, graded_class, stub

from .fixtures import LAPTOP, PICTURES, running

pytestmark = pytest.mark.browser

PAGE = f"course/read/{UNIT.number}/{EXERCISE.id}"
HAS_A_VALUE = "id => document.getElementById(id).value"
HOSTILE = """</pre><script>window.ran = 'script'</script>
<img src=x onerror="window.ran = 'img'"> **bold** $a<b$ <b>bold</b> {{ 7 * 7 }} &lt;
" onmouseover="window.ran = 'attribute'" x='"""
PARTS = (
    ("full recomputation with the loss in pieces", "no recomputation at all"),
    ("its peak of 21.9 GB stays below 22", "its peak is small"),
    ("the loss is what is left", "layers are what is left"),
    ("softmax and dropout move memory", "FLOPs run twice"),
)
HINT = "Which row has a peak below 22 GB?"


def text_of(n: int) -> str:
    """The text of the n-th student; every fifth says what another one says."""
    chance = random.Random(n)
    if n % 5 == 4:
        return "We take " + "; ".join(part[0] for part in PARTS) + "!" * (n % 3)
    said = [part[chance.random() < 0.4] for part in PARTS]
    return f"Answer with {n} in it: " + ", and ".join(said) + "."


TEXTS = {f"student-{n:02}": text_of(n) for n in range(60)} | {
    "<img src=x onerror=window.ran='id'>": HOSTILE,
    "late-riser": stub(),
}
NUM_TEXTS = 61


class Reader:
    """Somebody who reads, in a browser window of their own."""

    def __init__(self, browser: Any, address: Any, scheme: str = "light") -> None:
        self.page = browser.new_context(viewport=LAPTOP, color_scheme=scheme).new_page()
        self.page.set_default_timeout(60_000)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self._note(str(error)))
        self.page.on("console", lambda said: self._note(said.text))
        self.origin, self.token = f"http://{address.netloc}", address.query
        self.num_keys = 0

    def _note(self, error: str) -> None:
        """Keep an error of our pages; a refused change is none."""
        if "/course/read" in self.page.url and "409" not in error:
            self.errors.append(error)

    def open(self, place: str = PAGE) -> "Reader":
        self.page.goto(f"{self.origin}/{place}?{self.token}")
        return self

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.num_keys += len(keys)
        self.page.evaluate("jobs")

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.num_keys += len(text)

    def elsewhere_and_back(self) -> None:
        """Look at another card; this one may be the first or the last."""
        is_last = re.search(r"Card (\d+) of \1\b", self.said)
        self.press(*("ArrowLeft", "ArrowRight") if is_last else ("ArrowRight", "ArrowLeft"))

    @property
    def texts(self) -> list[str]:
        """The texts of the card that is shown."""
        return self.page.locator("article:not([hidden]) pre").all_text_contents()

    @property
    def sections(self) -> list[str]:
        """What is said of each answer of the card that is shown."""
        return self.page.locator("article:not([hidden]) section").all_inner_texts()

    @property
    def said(self) -> str:
        return self.page.inner_text("article:not([hidden])")

    @property
    def count(self) -> str:
        return self.page.inner_text("#count")

    @property
    def notice(self) -> str:
        return self.page.inner_text("#notice")

    def picture(self, name: str) -> None:
        self.page.screenshot(path=PICTURES / f"reading {name}.png")


@contextmanager
def served(folder: Path, texts: dict[str, str]) -> Iterator[Any]:
    graded_class(folder, texts)
    with running("author", folder) as address:
        yield address


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reading")


@pytest.fixture(scope="module")
def address(browser: Any, course: Path) -> Iterator[Any]:
    with served(course, TEXTS) as address:
        yield address


@pytest.fixture
def reader(browser: Any, address: Any) -> Iterator[Reader]:
    reader = Reader(browser, address)
    yield reader
    reader.page.context.close()
    assert not reader.errors


def marks(course: Path) -> dict[str, Mark]:
    found = Marks(course).of_unit(UNIT.folder)
    return {each.student: each.mark for each in found if each.cell == EXERCISE.id}


def untouched(course: Path) -> dict[str, Mark]:
    """The class as it was graded; what tests have written before is taken back."""
    book = Marks(course)
    changes = {
        each.student: Change(each, each.mark, Mark(None, "", each.auto_score is None))
        for each in book.of_unit(UNIT.folder)
        if each.cell == EXERCISE.id
    }
    book.change([*changes.values()])
    return {student: each.wanted for student, each in changes.items()}


def test_sixty_texts_are_read_by_keys_alone(reader: Reader, course: Path) -> None:
    expected = untouched(course)
    students = {text: [name for name in TEXTS if TEXTS[name] == text] for text in TEXTS.values()}
    reader.open()
    assert reader.count == f"0 of {NUM_TEXTS}"
    num_cards = 0
    while "All answers" not in reader.notice:
        found = [part in reader.texts[0] for part, _ in PARTS]
        comment = ""
        if not found[0]:
            comment = HINT
            if reader.page.locator("#saved button").count():
                reader.press("Shift+Digit1")
            else:
                reader.press("c")
                reader.type(HINT)
                reader.press("Escape")
        items = [str(n + 1) for n, is_there in enumerate(found) if is_there]
        keys = ["f"] if all(found) else [*items, "Enter"] if any(found) else ["x"]
        for text in reader.texts:
            for name in students[text]:
                expected[name] = Mark(sum(found) / 2, comment, False)
        reader.press(*keys)
        num_cards += 1
    assert reader.count == f"{NUM_TEXTS} of {NUM_TEXTS}"
    assert num_cards < NUM_TEXTS - 5
    assert marks(course) == expected
    assert len({mark.score for mark in expected.values()}) >= 4
    assert reader.num_keys < 4 * NUM_TEXTS
    reader.open(f"course/read/{UNIT.number}")
    assert f"{NUM_TEXTS} of {NUM_TEXTS}" in reader.page.inner_text("tr.quiet")


def test_formgrader_leads_here_and_shows_what_was_given(reader: Reader, course: Path) -> None:
    untouched(course)
    page = reader.page
    place = f"formgrader/gradebook/{UNIT.folder}/{UNIT.folder}"
    reader.open()
    page.goto(f"{reader.origin}/{place}")
    page.locator("td a", has_text="Submission #").first.click()
    page.wait_for_function(LOADED)
    assert page.input_value(f"#{EXERCISE.id}") == ""
    address = page.url
    page.goto(f"{reader.origin}/{place}")
    page.click("text=Read by question")
    page.click(f"text={EXERCISE.title}")
    while "All answers" not in reader.notice:
        reader.press("1", "2", "2", "c")
        reader.type("Look *again*.")
        reader.press("Control+Enter")
    page.goto(address)
    page.wait_for_function(LOADED)
    for name, value in ((EXERCISE.id, "0.75"), (f"{EXERCISE.id}-comment", "Look *again*.")):
        page.wait_for_function(HAS_A_VALUE, arg=name)  # it is fetched after the page
        assert page.input_value(f"#{name}") == value
    assert set(marks(course).values()) == {
        Mark(0.75, "Look *again*.", False),
        Mark(None, "", False),
    }


def test_undo_brings_back_points_and_comment(reader: Reader, course: Path) -> None:
    untouched(course)
    reader.open()
    states = [marks(course)]
    reader.press("c")
    reader.type("one")
    reader.press("Escape", "f")
    states.append(marks(course))
    reader.press("Home", "p")
    reader.type("0.3")
    reader.press("Enter", "ArrowLeft", "Shift+Digit1", "x")
    states.append(marks(course))
    reader.page.reload()
    reader.press("u", "u")
    assert marks(course) == states[1]
    assert "one" in reader.page.inner_text("article:not([hidden]) .mark >> nth=0")
    reader.press("u")
    assert marks(course) == states[0]
    assert reader.page.input_value("#points") == ""
    assert reader.page.is_disabled("#undo")


def test_a_missing_number_of_points_is_asked_for(reader: Reader, course: Path) -> None:
    before = untouched(course)
    reader.open().press("Enter")
    assert "Give points from 0 to 2" in reader.notice
    reader.press("p")
    reader.type("7")
    reader.press("Enter")
    assert "Give points from 0 to 2" in reader.notice
    assert marks(course) == before


def test_a_marked_card_shows_its_items_where_the_points_tell_them(
    reader: Reader, course: Path
) -> None:
    untouched(course)
    pressed = reader.page.locator("#rubric [aria-pressed=true]")
    reader.open().press("f", "1", "2", "Enter", "x", "Home")
    assert reader.page.input_value("#points") == "2"
    assert pressed.count() == len(PARTS)
    reader.press("ArrowRight")
    assert reader.page.input_value("#points") == "1"
    assert pressed.count() == 0, "1 point is any two of the items"
    reader.press("1")
    assert reader.page.input_value("#points") == "0.5"
    reader.press("ArrowRight")
    assert (reader.page.input_value("#points"), pressed.count()) == ("0", 0)


@pytest.mark.parametrize("typed", ["0,25", "0.25", ",25", " .25"])
def test_points_have_a_comma_or_a_point(reader: Reader, course: Path, typed: str) -> None:
    untouched(course)
    reader.open().press("p")
    reader.type(typed)
    reader.press("Enter")
    assert {mark.score for mark in marks(course).values()} == {None, 0.25}


@pytest.mark.parametrize("typed", ["0,2,5", "1-1", "-1", "1e0", "0,25!", "1 1", "2,5", ".", "½"])
def test_what_is_no_number_of_points_is_refused(reader: Reader, course: Path, typed: str) -> None:
    before = untouched(course)
    reader.open().press("p")
    reader.type(typed)
    reader.press("Enter")
    assert "Give points from 0 to 2" in reader.notice
    assert reader.page.input_value("#points") == typed
    assert marks(course) == before


def test_letters_are_keys_in_the_field_of_points_too(reader: Reader, course: Path) -> None:
    untouched(course)
    reader.open().press("p")
    reader.type("0,5c")
    reader.page.evaluate("jobs")
    reader.type("The reason.")
    reader.press("Control+Enter")
    assert Mark(0.5, "The reason.", False) in marks(course).values()


def test_a_key_that_is_held_marks_one_card(reader: Reader, course: Path) -> None:
    untouched(course)
    reader.open()
    for _ in range(5):
        reader.page.keyboard.down("f")
    reader.page.keyboard.up("f")
    reader.press("m")
    assert {mark.score for mark in marks(course).values()} == {None, 2.0}
    assert "Card 2 of" in reader.page.inner_text("article:not([hidden]) h2")


def test_like_answers_are_marked_together_or_one_by_one(reader: Reader, course: Path) -> None:
    untouched(course)
    reader.open()
    while len(reader.texts) == 1:
        reader.press("ArrowRight")
    together = len(reader.texts)
    reader.picture("like answers")
    reader.press("o")
    assert len(reader.texts) == 1
    reader.press("x", "f")
    given = [mark.score for mark in marks(course).values() if mark.score is not None]
    assert sorted(given) == [0, 2]
    assert reader.count == f"2 of {NUM_TEXTS}"
    reader.press("u", "u")
    assert reader.count == f"0 of {NUM_TEXTS}"
    reader.open()
    while len(reader.texts) == 1:
        reader.press("ArrowRight")
    reader.press("f")
    assert reader.count == f"{together} of {NUM_TEXTS}"


def test_points_of_a_check_are_not_taken_from_several_unasked(reader: Reader, course: Path) -> None:
    book, item = Marks(course), UNIT.exercises[0]

    def given() -> list[float]:
        found = [each for each in book.of_unit(UNIT.folder) if each.cell == item.graded_cell]
        return sorted(each.mark.score for each in found if each.mark.score is not None)

    reader.open(f"course/read/{UNIT.number}/{item.id}")
    while f"{item.points:g} of {item.points:g}." not in reader.said:
        reader.press("ArrowRight")
    together = len(reader.sections)
    assert together > 2
    reader.press("x")
    assert f"to each of these {together} answers" in reader.notice
    assert given() == []
    reader.picture("a mark that lowers")
    reader.elsewhere_and_back()
    reader.press("p")
    reader.type("0.5")
    reader.press("Enter")
    assert f"to each of these {together} answers" in reader.notice, "another card was looked at"
    assert given() == []
    reader.press("o", "x")
    assert given() == [0.0], "one by one nobody asks"
    reader.press("u", "f")
    assert given() == [item.points]
    reader.press("u")
    assert given() == []


def test_two_readers_at_once_lose_nothing(
    browser: Any, reader: Reader, address: Any, course: Path
) -> None:
    untouched(course)
    other = Reader(browser, address).open()
    reader.open()
    assert reader.texts == other.texts
    other.press("c")
    other.type("theirs")
    other.press("Control+Enter")
    assert "Give points" in other.notice
    other.press("f")
    theirs = [mark for mark in marks(course).values() if not mark.waits and mark.score]
    assert theirs and theirs == [Mark(2.0, "theirs", False)] * len(theirs)
    reader.press("c")
    reader.type("mine")
    reader.press("Escape", "x")
    assert "Somebody else has marked this meanwhile" in reader.notice
    assert "2 of 2 · theirs" in reader.page.inner_text("article:not([hidden])")
    assert reader.page.input_value("#comment") == "mine"
    assert [m for m in marks(course).values() if m.score is not None] == theirs
    reader.picture("conflict")
    reader.press("x")  # knowing theirs now
    assert Mark(0.0, "mine", False) in marks(course).values()
    other.press("u")
    assert "Somebody else has marked this meanwhile" in other.notice
    assert Mark(0.0, "mine", False) in marks(course).values()
    other.press("End")
    while "All answers" not in reader.notice + other.notice:
        reader.press("f")
        if "All answers" not in reader.notice:
            other.press("1", "Shift+Enter")
    counts = [mark.score for mark in marks(course).values()]
    assert counts.count(None) == 1
    assert {0.5, 2.0} <= {*counts}
    other.page.context.close()


def test_nothing_of_a_student_runs_and_nobody_is_named(reader: Reader, course: Path) -> None:
    untouched(course)
    for place in (PAGE, f"course/read/{UNIT.number}", "course/read"):
        reply = reader.page.goto(f"{reader.origin}/{place}?{reader.token}")
        content = reader.page.content() + reply.text()
        assert not [name for name in TEXTS if name in content], place
        assert not [part for part in ("student-", "'id'", "submitted/") if part in content], place
        assert str(course) not in content
        assert "script-src 'self'" in reply.headers["content-security-policy"]
        assert "unsafe" not in reply.headers["content-security-policy"]
    reader.open()
    assert HOSTILE in reader.page.locator("pre").all_text_contents()
    while HOSTILE not in reader.texts:
        reader.press("ArrowRight")
    reader.picture("hostile")
    reader.page.hover("article:not([hidden]) pre")
    assert reader.page.evaluate("window.ran") is None


def test_without_the_token_there_is_nothing(browser: Any, address: Any, course: Path) -> None:
    before = untouched(course)
    page = browser.new_context().new_page()
    page.goto(f"http://{address.netloc}/{PAGE}")
    assert "/login" in page.url
    reply = page.request.post(f"http://{address.netloc}/{PAGE}", data={"changes": []})
    assert reply.status == 403
    page.goto(f"http://{address.netloc}/{PAGE}?{address.query}")
    assert page.locator("article").count()
    reply = page.request.post(f"http://{address.netloc}/{PAGE}", data={"changes": []})
    assert reply.status == 403, "another site could send this with the reader's cookie"
    assert marks(course) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_looked_at(browser: Any, address: Any, course: Path, scheme: str) -> None:
    untouched(course)
    reader = Reader(browser, address, scheme).open()
    reader.press("c")
    reader.type(HINT)
    reader.press("Escape", "1", "3", "Enter", "1", "2", "2", "Shift+Digit1", "m")
    reader.picture(f"exercise {scheme}")
    assert reader.page.locator("#rubric [aria-pressed=mixed]").count() == 1
    width = reader.page.evaluate("document.documentElement.scrollWidth")
    assert width <= LAPTOP["width"]
    reader.open(f"course/read/{UNIT.number}").picture(f"unit {scheme}")
    reader.page.context.close()


# The page of a submission in formgrader is ready for keys.
LOADED = """() => typeof formgrader !== "undefined"
    && formgrader.grades?.loaded && formgrader.comments?.loaded"""
