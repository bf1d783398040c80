"""Does a student's way through the notebooks work, in a real JupyterLab, with keyboard and mouse?

Every test brings the notebook into the state that it needs, so that each can run alone. Pictures of
what was seen are kept in `test-results/browser/`.
"""

from __future__ import annotations

import json
import re
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest

from autograder import catalogue
from tests.answer_bank import Wrong
from tests.notebooks.filling import UNITS, answer_banks_of, solved, wrong_answers
from tests.sampling import some_units

from .fixtures import Notebooks
from .lab_page import ERRORS, LabPage

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser


class Exercise(NamedTuple):
    """A wrong answer with the end of the hint that it must show, a right one."""

    id: str
    unit: str
    wrong: str
    hint: str
    right: str

    @property
    def title(self) -> str:
        """As its card and its verdicts say."""
        return catalogue.title_of(self.id)

    @property
    def full_marks(self) -> str:
        """What the check says about a right answer."""
        points = catalogue.exercise(self.id).points
        return f"✓ {self.title}\n{points:g} of {points:g} point"


def exercises_of(unit: str) -> list[Exercise]:
    """The first wrong answer to each exercise beside the instructor's answer."""
    right = solved(unit)
    first = {name: wrong_answers(name)[0] for name in answer_banks_of(unit)}
    return [
        Exercise(name, unit, source_of(wrong), wrong.hint, right[name])
        for name, wrong in first.items()
    ]


def source_of(wrong: Wrong) -> str:
    return textwrap.dedent(wrong.source).strip()


OPENED = some_units()
EXERCISES = [exercise for unit in OPENED for exercise in exercises_of(unit)]

MEASURING = "Measuring …\n\n"  # what a slow check says first

VALIDATED = UNITS[:2]  # every unit is graded as a whole in `tests/autograder/grading`

# Their exercises that a person reads, with a sentence for each.
TEXTS = {
    "u00-view": "It is a view of the large storage; a clone would let go of it.",
    "u01-first-layer": "Nobody wants the gradient of the data, so it takes twice.",
}

IS_EXPLORER = re.compile(r"^explorer\(", re.MULTILINE)

each_unit = pytest.mark.parametrize("unit", OPENED)
each_with_exercises = pytest.mark.parametrize(
    "unit", dict.fromkeys(each.unit for each in EXERCISES)
)
first_unit = pytest.mark.parametrize("unit", UNITS[:1])
each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)


def texts_of(unit: str) -> list[str]:
    return [name for name in TEXTS if unit.startswith(name[1:3] + "_")]


@each_unit
def test_release_runs_from_top_to_bottom(notebooks: Notebooks, unit: str) -> None:
    assert notebooks[unit].released
    _, errors, prompts, checks = notebooks.first_runs[unit]
    assert errors == []
    assert all(any(map(str.isdigit, prompt)) for prompt in prompts)
    for exercise in exercises_of(unit):
        shown = checks[f"{exercise.id}-test"].removeprefix(MEASURING)
        assert shown.startswith(f"○ {exercise.title}\n0 of ")


@each_unit
def test_unit_as_opened_is_no_longer_than_it_may_be(notebooks: Notebooks, unit: str) -> None:
    """As opened, with extras; a screen has 900 pixels."""
    notebook = notebooks[unit]
    notebook.show(notebook.released[0].id)
    notebook.screenshot(f"{unit}-opening")
    assert notebooks.first_runs[unit].height <= 25 * 900


@each_exercise
def test_wrong_answer_shows_its_hint_and_right_one_its_points(
    notebooks: Notebooks, exercise: Exercise
) -> None:
    notebook = notebooks[exercise.unit]
    notebook.write(exercise.id, exercise.wrong)
    notebook.run(exercise.id)
    shown = notebook.run(f"{exercise.id}-test")
    notebook.screenshot(f"{exercise.id}-wrong")
    assert shown.removeprefix(MEASURING).startswith(f"✗ {exercise.title}")
    assert exercise.hint.replace("`", "") in shown  # code is set as code

    notebook.write(exercise.id, exercise.right)
    notebook.run(exercise.id)
    shown = notebook.run(f"{exercise.id}-test")
    notebook.screenshot(f"{exercise.id}-right")
    assert exercise.full_marks in shown
    assert "Hint" not in shown


@pytest.mark.parametrize("unit", VALIDATED)
def test_validate_tells_what_is_missing_and_then_success(notebooks: Notebooks, unit: str) -> None:
    notebook = notebooks[unit]
    first, *others = exercises_of(unit)
    for exercise in others:
        notebook.write(exercise.id, exercise.right)
    for name in texts_of(unit):
        notebook.type_text(name, TEXTS[name])
    notebook.write(first.id, first.wrong)
    message = notebook.validate(f"{unit}-validate-wrong")
    assert message.count("The following cell failed") == 1
    assert f'check("{first.id}"' in message
    assert first.hint in message
    assert "Success" not in message

    notebook.write(first.id, first.right)
    message = notebook.validate(f"{unit}-validate-right")
    assert message.strip() == "Success! Your notebook passes all the tests."
    assert notebook.saved_source(first.id) == notebook.source(first.id)


@each_with_exercises
def test_an_answer_can_be_typed_key_by_key(notebooks: Notebooks, unit: str) -> None:
    notebook = notebooks[unit]
    exercise = next(each for each in exercises_of(unit) if notebook.has_one_stub(each.id))
    notebook.type_answer(exercise.id, "number = 1\nreturn number")
    notebook.run(exercise.id)
    assert notebook.run(f"{exercise.id}-test").startswith(f"✗ {exercise.title}")


@each_with_exercises
def test_graded_cell_cannot_be_edited_or_deleted(notebooks: Notebooks, unit: str) -> None:
    notebook = notebooks[unit]
    name = f"{exercises_of(unit)[-1].id}-test"
    source = notebook.find(name).source
    notebook.cell(name).locator(".cm-content").click()
    notebook.page.keyboard.type("2 points, please")
    notebook.page.keyboard.press("Backspace")
    assert notebook.source(name) == source
    notebook.cell(name).locator(".jp-InputPrompt").click()
    notebook.page.keyboard.type("dd")
    assert notebook.source(name) == source
    assert notebook.page.locator(".jp-Cell").count() == len(notebook.released)


def picture_in(notebook: LabPage, cell: str) -> tuple[str, str]:
    """The figure that a cell shows, and the sentence below it."""
    figure = notebook.cell(cell).locator("figure")
    return figure.locator("svg").inner_html(), figure.locator("figcaption").inner_text()


def wait_for_caption(notebook: LabPage, cell: str, text: str) -> None:
    notebook.cell(cell).locator("figcaption", has_text=text).wait_for()


@first_unit
def test_slider_moves_figure_and_number(notebooks: Notebooks, unit: str) -> None:
    notebook = notebooks[unit]
    cell = "explorer("
    notebook.run(cell)
    first_image, first_caption = picture_in(notebook, cell)
    assert "7 billion parameters of 16 bytes: a paper prints 112 GB" in first_caption
    billions, element_bytes = notebook.cell(cell).locator(".noUi-handle").all()

    handle = billions.bounding_box()
    rail = notebook.cell(cell).locator(".noUi-base").first.bounding_box()
    mouse = notebook.page.mouse
    mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2)
    mouse.down()
    mouse.move(rail["x"] + rail["width"], handle["y"] + handle["height"] / 2, steps=5)
    mouse.up()
    wait_for_caption(notebook, cell, "405 billion parameters of 16 bytes: a paper prints 6,480")
    image, _ = picture_in(notebook, cell)
    notebook.screenshot("00-explorer-dragged")
    assert image != first_image

    element_bytes.focus()
    notebook.page.keyboard.press("ArrowLeft")
    wait_for_caption(notebook, cell, "405 billion parameters of 4 bytes: a paper prints 1,620")
    assert picture_in(notebook, cell)[0] not in (image, first_image)


# Explorers of units 11 to 13: what is done to which control, and what the caption says then.
MOVES = {
    ("11_tensor_and_context_parallelism", "    shared_triangle,"): [
        ("who holds what", "zigzag", "Zigzag, 4 ranks: the busiest computes 9 squares"),
        ("ranks", "ArrowRight", "Zigzag, 6 ranks: the busiest computes 13 squares"),
    ],
    ("12_pipeline_parallelism", "explorer("): [
        ("order", "interleaved, 2 chunks", "28.5 seconds"),
        ("message, seconds", "End", "46 seconds"),
        ("stages", "Home", "21 seconds"),
        ("order", "1F1B", "19 seconds"),
        ("micro-batches per stage", "End", "27 seconds"),
        ("message, seconds", "Home", "21 seconds"),
        ("order", "zero bubble", "19 seconds"),
    ],
    ("13_efficient_designs_and_inference", "explorer(decode_step"): [
        ("sequences", "End", "64 × 1 tokens, 8,191 cached for each sequence"),
        ("sequences", "ArrowLeft", "436,224,000 bytes of weights and 536,870,912 of cache"),
    ],
    ("13_efficient_designs_and_inference", "explorer(\n    rates_over_batch"): [
        ("device", "H200", "on one H200, 8,192 cached tokens each"),
        ("device", "H100-SXM", "that fits is 8, 32, 256, 128"),
        ("cached tokens of each", "ArrowLeft", "that fits is 64, 256, 1,024, 1,024"),
    ],
    ("13_efficient_designs_and_inference", "explorer(\n    draft_overlap"): [
        ("drafted tokens", "ArrowLeft", "with 2 drafted, one pass of the large model gives 2.68"),
        ("drafted tokens", "End", "with 8 drafted, one pass of the large model gives 5.91"),
        ("known to the draft", "40 %", "with 8 drafted, one pass of the large model gives 2.95"),
    ],
}


@pytest.mark.parametrize(("unit", "cell"), MOVES)
def test_buttons_and_sliders_move_figure_and_caption(
    notebooks: Notebooks, unit: str, cell: str
) -> None:
    notebook = notebooks[unit]
    notebook.run(cell)
    images = [picture_in(notebook, cell)[0]]
    for label, gesture, caption in MOVES[unit, cell]:
        move(notebook, cell, label, gesture)
        wait_for_caption(notebook, cell, caption)
        images.append(picture_in(notebook, cell)[0])
    assert all(one != next_one for one, next_one in pairwise(images))


def move(notebook: LabPage, cell: str, label: str, gesture: str) -> None:
    """Press a button of a control, or a key on its slider."""
    name = notebook.page.get_by_text(label, exact=True)
    row = notebook.cell(cell).locator(".widget-hbox").filter(has=name)
    if row.locator(".noUi-handle").count():
        row.locator(".noUi-handle").focus()
        notebook.page.keyboard.press(gesture)
    else:
        row.get_by_role("button", name=gesture, exact=True).click()


@each_unit
def test_every_control_of_an_explorer_changes_what_it_shows(
    notebooks: Notebooks, unit: str
) -> None:
    notebook = notebooks[unit]
    for explorer in (cell for cell in notebook.released if IS_EXPLORER.search(cell.source)):
        notebook.run(explorer.id)
        shown = notebook.cell(explorer.id)
        rows = shown.locator(".widget-hbox:has(.noUi-handle, button, select)")
        assert rows.count() == explorer.source.count("Choice(")
        for row in rows.all():
            before = shown.locator("figure").evaluate("figure => figure.outerHTML")
            choose_another(row)
            notebook.page.wait_for_function(
                "([cell, before]) => cell.querySelector('figure')?.outerHTML !== before",
                arg=[shown.element_handle(), before],
            )
        assert not shown.locator(", ".join(ERRORS)).count()


def choose_another(row: Locator) -> None:
    """Change a control: the next size of a slider, or another of its buttons or of its list."""
    if (handle := row.locator(".noUi-handle")).count():
        is_last = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
        handle.press("ArrowLeft" if is_last else "ArrowRight")
    elif (options := row.locator("select")).count():
        options.select_option(index=int(options.evaluate("list => list.selectedIndex") == 0))
    else:
        row.locator("button:not(.mod-active)").first.click()


@first_unit
def test_progress_is_shown_and_kept(notebooks: Notebooks, unit: str) -> None:
    notebook = notebooks[unit]
    exercise = exercises_of(unit)[0]
    item = catalogue.exercise(exercise.id)
    for source, mark, points in ((exercise.wrong, "✗", 0.0), (exercise.right, "✓", item.points)):
        notebook.write(exercise.id, source)
        notebook.run(exercise.id)
        notebook.run(f"{exercise.id}-test")
        notebook.run("progress()")
        of_exercise = notebook.cell("progress()").locator(f'span[title^="{item.title}"]')
        notebook.screenshot(f"00-progress-{points:g}")
        assert of_exercise.inner_text() == mark
        kept = json.loads((notebook.path.parents[1] / "progress.json").read_text())
        assert kept["exercises"][exercise.id]["points"] == points
        assert source.splitlines()[-1] in kept["exercises"][exercise.id]["source"]


@each_unit
def test_outputs_can_be_read_on_a_laptop_in_both_themes(notebooks: Notebooks, unit: str) -> None:
    notebook = notebooks[unit]
    places = [cell for cell in notebook.released if cell.kind == "code"][::3]
    faint = {}
    for theme in ("Dark", "Light"):
        notebook.use_theme(theme)
        for cell in places:
            notebook.show(cell.id)
            notebook.screenshot(f"{unit}-{theme.lower()}-{cell.index:02}")
        faint[theme] = notebook.faint_text()
    assert faint == {"Dark": [], "Light": []}
    assert notebook.cut_off() == []


@each_unit
def test_nothing_is_fetched_and_the_console_is_quiet(notebooks: Notebooks, unit: str) -> None:
    notebook = notebooks[unit]
    hosts = {urlsplit(address).hostname for address in notebook.addresses}
    assert hosts <= {"127.0.0.1", None}  # None: data and blob addresses, which name no host
    assert notebook.complaints == []
