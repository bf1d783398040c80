"""Does a student's way through the notebooks work, in a real JupyterLab, with keyboard and mouse?

Every test brings the notebook into the state that it needs, so that each can run alone. Pictures of
what was seen are kept in `test-results/browser/`.
"""

import json
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from course_utils import catalogue

from .fixtures import ROOT, Notebooks
from .lab_page import LabPage

pytestmark = pytest.mark.browser

UNITS = sorted(folder.name for folder in (ROOT / "notebooks").iterdir() if folder.is_dir())


class Exercise(NamedTuple):
    """A wrong answer with the end of the hint that it must show, and a right answer."""

    id: str
    wrong: str
    hint: str
    right: str

    @property
    def unit(self) -> str:
        """The unit that the exercise belongs to."""
        return next(unit for unit in UNITS if unit.startswith(self.id[1:3] + "_"))

    @property
    def full_marks(self) -> str:
        """What the check says about a right answer."""
        points = catalogue.exercise(self.id).points
        return f"✓ {self.id}: {points:g} of {points:g} point"


# Typed key by key: each line of a body stands at the same depth.
EXERCISES = [
    Exercise(
        "u00-tensor-bytes",
        "import math\nreturn math.prod(shape)",
        "How many bytes does each of them take?",
        "import math\nreturn math.prod(shape) * element_bytes",
    ),
    Exercise(
        "u00-state-gib",
        "return num_params * bytes_per_param / 10**9",
        "How many bytes has a GiB?",
        "return num_params * bytes_per_param / 2**30",
    ),
    Exercise(
        "u00-step-seconds",
        "return num_sequences * flops_per_token / flops_per_second",
        "How many tokens has one sequence?",
        "return num_sequences * seq_len * flops_per_token / flops_per_second",
    ),
    Exercise(
        "u00-four-memories",
        "live = sum(live_bytes.values())\n"
        "kept = live + cached_bytes\n"
        'found = {"allocated_bytes": live, "reserved_bytes": kept, "driver_bytes": kept}\n'
        'return found | {"saved_bytes": live_bytes["saved_for_backward"]}',
        "Which of the four numbers shows it?",
        "live = sum(live_bytes.values())\n"
        "kept = live + cached_bytes\n"
        'saved = live_bytes["saved_for_backward"]\n'
        'found = {"saved_bytes": saved, "allocated_bytes": live}\n'
        'return found | {"reserved_bytes": kept, "driver_bytes": kept + outside_bytes}',
    ),
    Exercise(
        "u01-attention-flops",
        "b, s, a, d = num_sequences, seq_len, num_heads, head_dim\n"
        "wide = 8 * b * s * (a * d) ** 2\n"
        'return {"projection_flops": wide, "core_flops": 4 * b * a * s * s * d}',
        "How many heads do they have?",
        "b, s, a, d = num_sequences, seq_len, num_heads, head_dim\n"
        "wide = 4 * b * s * a * d * d * (a + num_kv_heads)\n"
        'return {"projection_flops": wide, "core_flops": 4 * b * a * s * s * d}',
    ),
    Exercise(
        "u01-gated-mlp-flops",
        "return 4 * num_tokens * hidden_size * ffn_size",
        "How many does a gate add?",
        "return 6 * num_tokens * hidden_size * ffn_size",
    ),
    Exercise(
        "u01-model-flops",
        "b, s, h, d = num_sequences, seq_len, model.hidden_size, model.head_dim\n"
        "heads = model.num_heads + model.num_kv_heads\n"
        "layer = b * s * h * (4 * heads * d + 6 * model.ffn_size)\n"
        "return model.num_layers * (layer + 4 * b * model.num_heads * d * s * s)",
        "become logits over the vocabulary?",
        "b, s, h, d = num_sequences, seq_len, model.hidden_size, model.head_dim\n"
        "heads = model.num_heads + model.num_kv_heads\n"
        "layer = b * s * h * (4 * heads * d + 6 * model.ffn_size)\n"
        "layers = model.num_layers * (layer + 4 * b * model.num_heads * d * s * s)\n"
        "return layers + 2 * b * s * h * model.vocab_size",
    ),
    Exercise(
        "u01-stack-training-flops",
        "sizes = zip(widths, widths[1:])\n"
        "return sum(6 * num_tokens * inner * outer for inner, outer in sizes)",
        "Who wants the gradient of the data?",
        "sizes = enumerate(zip(widths, widths[1:]))\n"
        "work = [2 * num_tokens * inner * outer for n, (inner, outer) in sizes]\n"
        "products = [1 + on + any(is_trained[:n]) for n, on in enumerate(is_trained)]\n"
        "return sum(each * times for each, times in zip(work, products))",
    ),
    Exercise(
        "u01-crossover-length",
        "return 4 * model.hidden_size",
        "when you write out both sides?",
        "width = model.num_heads * model.head_dim\n"
        "heads = model.num_heads + model.num_kv_heads\n"
        "rest = model.hidden_size * (4 * heads * model.head_dim + 6 * model.ffn_size)\n"
        "return -(-rest // (4 * width))",
    ),
    Exercise(
        "u01-gpu-days",
        "return flops_per_token * num_tokens / peak_flops_per_second / 86400",
        "say about the rate?",
        "rate = peak_flops_per_second * utilisation\n"
        "return flops_per_token * num_tokens / rate / 86400",
    ),
    Exercise(
        "u01-training-flops-per-token",
        "dim, groups, heads = model.hidden_size, model.num_kv_heads, model.num_heads\n"
        "square = 12 * dim * dim * (heads + groups) // heads\n"
        "layer = square + 18 * model.ffn_size * dim + 12 * seq_len * dim\n"
        "return model.num_layers * (layer + 6 * model.vocab_size * dim)",
        "How often does a model compute logits?",
        "dim, groups, heads = model.hidden_size, model.num_kv_heads, model.num_heads\n"
        "square = 12 * dim * dim * (heads + groups) // heads\n"
        "layer = square + 18 * model.ffn_size * dim + 12 * seq_len * dim\n"
        "return model.num_layers * layer + 6 * model.vocab_size * dim",
    ),
    Exercise(
        "u01-matmul-flops",
        "forward = rows * inner * columns\n"
        'return {"forward_flops": forward, "backward_flops": 2 * forward}',
        "What happens to the products after that?",
        "forward = 2 * rows * inner * columns\n"
        'return {"forward_flops": forward, "backward_flops": 2 * forward}',
    ),
]

# Exercises that a person reads, with a sentence for each.
TEXTS = {"u00-view": "It is a view of the large storage; a clone would let go of it."}

each_unit = pytest.mark.parametrize("unit", UNITS)
each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)


def texts_of(unit: str) -> list[str]:
    return [name for name in TEXTS if unit.startswith(name[1:3] + "_")]


def exercises_of(unit: str) -> list[Exercise]:
    return [exercise for exercise in EXERCISES if exercise.unit == unit]


@each_unit
def test_release_runs_from_top_to_bottom(notebooks: Notebooks, unit: str) -> None:
    notebook = notebooks[unit]
    for exercise in exercises_of(unit):
        notebook.type_answer(exercise.id, "raise NotImplementedError")
    notebook.run_all()
    assert notebook.errors() == []
    assert all(any(map(str.isdigit, prompt)) for prompt in notebook.prompts())
    for exercise in exercises_of(unit):
        shown = notebook.outputs(f"{exercise.id}-test")
        assert shown.startswith(f"○ {exercise.id}: 0 of ")


@each_exercise
def test_wrong_answer_shows_its_hint_and_right_one_its_points(
    notebooks: Notebooks, exercise: Exercise
) -> None:
    notebook = notebooks[exercise.unit]
    notebook.type_answer(exercise.id, exercise.wrong)
    notebook.run(exercise.id)
    shown = notebook.run(f"{exercise.id}-test")
    notebook.screenshot(f"{exercise.id}-wrong")
    assert shown.startswith(f"✗ {exercise.id}")
    assert exercise.hint in shown

    notebook.type_answer(exercise.id, exercise.right)
    notebook.run(exercise.id)
    shown = notebook.run(f"{exercise.id}-test")
    notebook.screenshot(f"{exercise.id}-right")
    assert exercise.full_marks in shown
    assert "Hint" not in shown


@each_unit
def test_validate_tells_what_is_missing_and_then_success(notebooks: Notebooks, unit: str) -> None:
    notebook = notebooks[unit]
    first, *others = exercises_of(unit)
    for exercise in others:
        notebook.type_answer(exercise.id, exercise.right)
    for name in texts_of(unit):
        notebook.type_text(name, TEXTS[name])
    notebook.type_answer(first.id, first.wrong)
    message = notebook.validate(f"{unit}-validate-wrong")
    assert message.count("The following cell failed") == 1
    assert f'check("{first.id}"' in message
    assert "Success" not in message

    notebook.type_answer(first.id, first.right)
    message = notebook.validate(f"{unit}-validate-right")
    assert message.strip() == "Success! Your notebook passes all the tests."
    assert notebook.saved_source(first.id) == notebook.source(first.id)


@each_exercise
def test_graded_cell_cannot_be_edited_or_deleted(notebooks: Notebooks, exercise: Exercise) -> None:
    notebook = notebooks[exercise.unit]
    name = f"{exercise.id}-test"
    released = notebook.find(name).source
    notebook.cell(name).locator(".cm-content").click()
    notebook.page.keyboard.type("2 points, please")
    notebook.page.keyboard.press("Backspace")
    assert notebook.source(name) == released
    notebook.cell(name).locator(".jp-InputPrompt").click()
    notebook.page.keyboard.type("dd")
    assert notebook.source(name) == released
    assert notebook.page.locator(".jp-Cell").count() == len(notebook.released)


def picture_in(notebook: LabPage, cell: str) -> tuple[str, str]:
    """The figure that a cell shows, and the sentence below it."""
    figure = notebook.cell(cell).locator("figure")
    return figure.locator("img").get_attribute("src"), figure.locator("figcaption").inner_text()


def wait_for_caption(notebook: LabPage, cell: str, text: str) -> None:
    notebook.cell(cell).locator("figcaption", has_text=text).wait_for()


def test_slider_moves_figure_and_number(notebooks: Notebooks) -> None:
    notebook = notebooks["00_start_here"]
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


def test_progress_is_shown_and_kept(notebooks: Notebooks) -> None:
    notebook = notebooks["00_start_here"]
    exercise = exercises_of("00_start_here")[0]
    item = catalogue.exercise(exercise.id)
    for body, mark, points in ((exercise.wrong, "✗", 0.0), (exercise.right, "✓", item.points)):
        notebook.type_answer(exercise.id, body)
        notebook.run(exercise.id)
        notebook.run(f"{exercise.id}-test")
        shown = notebook.run("progress()")
        notebook.screenshot(f"00-progress-{points:g}")
        assert f"{mark} {item.title}" in shown
        kept = json.loads((notebook.path.parents[1] / "progress.json").read_text())
        assert kept["exercises"][exercise.id]["points"] == points
        assert body.splitlines()[-1] in kept["exercises"][exercise.id]["source"]


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
