"""Does an instructor's way through formgrader work, and does nothing of a student's run in it?

One class is graded by `nbgrader autograde`; pictures are kept in `test-results/browser/`. A script
that runs where it should not says so in `window.ran`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import nbformat
import pytest

from autograder import catalogue
from autograder.cells import cell_key
from tests.autograder.grading.course_folder import Course
from tests.needs import SANDBOX, require
from tests.notebooks.filling import UNITS, answer_banks_of, composite, solved

from .fixtures import LAPTOP, PATIENCE_SECONDS, PICTURES, running

pytestmark = pytest.mark.browser

UNIT = UNITS[0]
TEXT, LOST = "u00-view", "u00-tensor-bytes-test"
STUDENT, HOSTILE = "wrong", "<img src=x onerror=window.ran='id'>"
COMMENT = "Say what the *storage* does."
SCRIPTS = """
Shared storage: $a<b$. <script>window.ran = 'script'</script>

<img src=x onerror="window.ran = 'img'"><svg onload="window.ran = 'svg'"></svg>
<details open ontoggle="window.ran = 'details'"><summary>more</summary>text</details>
<a href="javascript:window.ran = 'link'" class="full-credit" id="u00-view">a link</a>
<button class="full-credit" onclick="window.ran = 'button'">a button</button>
<style>body { display: none }</style>
"""
SHOWN = """
from IPython.display import HTML, Javascript, display
display(HTML("<script>window.ran = 'html'</script>"), Javascript("window.ran = 'js'"))
print("<script>window.ran = 'print'</script>")
raise ValueError("<img src=x onerror=window.ran='error'>")
"""


# The click leads to a new page, and the question may reach it before its scripts do.
LOADED = """() => typeof formgrader !== "undefined"
    && formgrader.grades?.loaded && formgrader.comments?.loaded"""


class Formgrader(NamedTuple):
    """Formgrader open in a browser window."""

    page: Any
    course: Course
    origin: str

    def go(self, *parts: str) -> None:
        self.page.goto("/".join([self.origin, "formgrader", *(quote(part, "") for part in parts)]))

    def open(self, student: str) -> None:
        """Open what a student handed in."""
        self.go("gradebook", UNIT, UNIT)
        self.page.wait_for_selector("text=Submission #1")
        self.page.click("#toggle_names")
        self.page.get_by_role("link", name=student, exact=True).click()
        self.page.wait_for_function(LOADED)

    def picture(self, name: str) -> None:
        self.page.screenshot(path=PICTURES / f"formgrader {name}.png", full_page=True)

    def nothing_ran(self) -> bool:
        return self.page.evaluate("window.ran") is None

    def press(self, student: str, action: str, done: str) -> str:
        """Press one of the buttons in a student's row; what the window about it says."""
        self.go("manage_submissions", UNIT)
        row = self.page.locator("tr", has=self.page.locator(f'.student-id:text-is("{student}")'))
        row.locator(f".{action} a").click()
        told = self.page.locator("#success-modal, #error-modal")
        told.wait_for()
        text: str = told.inner_text()
        assert done in text, text
        return text


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A class of three: one with wrong answers and a lost cell, and two who attack."""
    require(SANDBOX)
    made = Course(tmp_path_factory.mktemp("formgrader"))
    (made.folder / "home").mkdir()
    made.run("generate_assignment", UNIT)
    made.hand_in(STUDENT, UNIT, solved(UNIT) | composite(UNIT, 0) | {TEXT: "A view."})
    made.hand_in("scripts", UNIT, solved(UNIT) | {TEXT: SCRIPTS})
    made.hand_in(HOSTILE, UNIT, solved(UNIT))
    for student, source in ((STUDENT, "print('mine')"), ("scripts", SHOWN)):
        path = made.folder / "submitted" / student / UNIT / f"{UNIT}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        notebook.cells.insert(6, nbformat.v4.new_code_cell(source))
        if student == STUDENT:
            notebook.cells = [cell for cell in notebook.cells if cell_key(cell) != LOST]
        nbformat.write(notebook, path)
    made.run("autograde", UNIT)
    return made


@pytest.fixture(scope="module")
def formgrader(browser: Any, course: Course) -> Iterator[Formgrader]:
    with running("author", course.folder) as address:
        page = browser.new_page(viewport=LAPTOP)
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.goto(f"http://{address.netloc}/formgrader?{address.query}")
        yield Formgrader(page, course, f"http://{address.netloc}")
        page.close()


def feedback_of(course: Course, student: str) -> Path:
    return course.folder / "feedback" / student / UNIT / f"{UNIT}.html"


def test_a_submission_shows_verdicts_hints_and_remarks(formgrader: Formgrader) -> None:
    formgrader.open(STUDENT)
    formgrader.picture("submission")
    text = formgrader.page.inner_text("body")
    assert "Remarks of the grader" in text
    assert f"Missing and put back as the course made them: {LOST}." in text
    for name, bank in answer_banks_of(UNIT).items():
        assert f"✗ {catalogue.title_of(name)} on hidden sizes\nthe check gives" in text
        assert bank.wrong[0].hint in text


def test_the_model_answer_to_a_text_is_at_hand_where_it_is_scored(formgrader: Formgrader) -> None:
    formgrader.open(STUDENT)
    formgrader.page.click("text=Model answer and rubric")
    formgrader.picture("model answer")
    shown = formgrader.page.inner_text("details[open]")
    assert "half for the copy that lets the rest be freed" in shown


def test_what_a_person_gave_outlives_the_autograde_button(formgrader: Formgrader) -> None:
    page, test_cell = formgrader.page, "u00-state-gib-test"
    formgrader.open(STUDENT)
    for name, points in ((TEXT, "0.5"), (test_cell, "0.25")):
        with page.expect_response(lambda reply: "/api/grade/" in reply.url):
            page.fill(f"#{name}", points)
            page.press(f"#{name}", "Tab")
    with page.expect_response(lambda reply: "/api/comment/" in reply.url):
        page.fill(f"#{TEXT}-comment", COMMENT)
        page.press(f"#{TEXT}-comment", "Tab")
    told = formgrader.press(STUDENT, "autograde", "Successfully autograded")
    assert re.search(rf"{STUDENT}: [\d.]+ points by the checks, graded with remarks", told)
    formgrader.picture("autograded")
    formgrader.open(STUDENT)
    formgrader.picture("moderated")
    assert page.input_value(f"#{TEXT}") == "0.5"
    assert page.input_value(f"#{TEXT}-comment") == COMMENT
    assert page.input_value(f"#{test_cell}") == "0.25"
    resolve = page.locator(".nbgrader_cell", has=page.locator(f"#{TEXT}")).get_by_text("Resolve")
    assert not resolve.is_visible(), "nothing has changed since"


def test_feedback_tells_hints_and_no_secret(formgrader: Formgrader) -> None:
    formgrader.press(STUDENT, "generate-feedback", "Successfully generated feedback")
    page = formgrader.page
    page.goto(feedback_of(formgrader.course, STUDENT).as_uri())
    formgrader.picture("feedback")
    text = page.inner_text("body")
    for bank in answer_banks_of(UNIT).values():
        assert bank.wrong[0].hint in text
    assert "Wrong in" in text
    assert "Sizes:" in text
    assert "What a paper prints and what torch prints\t0.25 of 1" in text
    for secret in ("HIDDEN TESTS", "grade(", "a secret of this test", "Model answer"):
        assert secret not in text, secret
    assert "wanted" not in "".join(page.locator(".output_html").all_inner_texts())


def test_nothing_of_a_student_runs_in_formgrader(formgrader: Formgrader) -> None:
    for student in ("scripts", HOSTILE):
        formgrader.open(student)
        formgrader.picture(re.sub(r"\W+", "-", f"hostile {student}"))
        assert "Bytes of a tensor" in formgrader.page.inner_text("body")
        assert formgrader.nothing_ran(), student
    formgrader.open("scripts")
    assert formgrader.page.locator(".full-credit").count() == len(
        formgrader.page.locator("input.score").all()
    )
    formgrader.page.click("text=a link")
    assert formgrader.nothing_ran()
    for place in ("manage_submissions", "gradebook"):
        formgrader.go(place, UNIT)
        formgrader.page.wait_for_selector("td")
        assert formgrader.nothing_ran(), place


@pytest.mark.parametrize("name", [HOSTILE, 'x";window.ran="js";"'])
def test_no_name_in_an_address_runs(formgrader: Formgrader, name: str) -> None:
    for parts in (("manage_students", name), ("manage_students", name, UNIT), ("gradebook", name)):
        formgrader.go(*parts)
        formgrader.page.wait_for_load_state("networkidle")
        assert formgrader.nothing_ran(), parts


def test_nothing_of_a_student_runs_in_feedback(formgrader: Formgrader) -> None:
    formgrader.course.run("generate_feedback", UNIT)
    for student in ("scripts", HOSTILE):
        formgrader.page.goto(feedback_of(formgrader.course, student).as_uri())
        formgrader.picture(re.sub(r"\W+", "-", f"feedback {student}"))
        assert "Shared storage" in formgrader.page.inner_text("body") or student == HOSTILE
        assert formgrader.nothing_ran(), student
