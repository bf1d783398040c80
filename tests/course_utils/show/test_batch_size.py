"""Pictures of batch sizes say in words what a batch buys, and what it costs."""

import math

import numpy as np
import pytest

from course_utils.show import (
    batch_plan,
    batch_schedule,
    learning_rates,
    noise_estimates,
    noise_over_loss,
    steps_against_examples,
    with_progress,
)
from course_utils.show.progress_bar import PAGE
from tests.course_utils.show.texts import overlapping_texts

STEPS = {16: 347, 64: 97, 256: 28, 1024: 13, 4096: 10}
RATES = {16: 0.12, 64: 0.35, 256: 1.41, 1024: 2.0, 4096: 2.83}
MINIMAX = [
    (0, 16 * 10**6),
    (69 * 10**9, 32 * 10**6),
    (790 * 10**9, 64 * 10**6),
    (4_700 * 10**9, 128 * 10**6),
]
PLAN = {"global_batch_size": 256, "num_devices": 4, "critical_batch_tokens": 2**20}


def plan(model="Llama-3.2-1B", **changes):
    return batch_plan(model, **({"micro_batch_size": 4} | PLAN | changes))


PICTURES = {
    "hyperbola": lambda: steps_against_examples(STEPS, 9.2, 475),
    "learning rates": lambda: learning_rates(RATES, 64, 660),
    "noise": lambda: noise_over_loss([1.6, 1.2, 0.6], [61, 93, 3016], [60, 98, 2700]),
    "estimates": lambda: noise_estimates([50.0, 70.0, 400.0, -3.0, math.inf], 61, 60),
    "schedule": lambda: batch_schedule(MINIMAX, 10_400 * 10**9),
    "plan": plan,
    "plan of a large model": lambda: plan("Llama-3-8B", global_batch_size=16_384),
}


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_overlaps(name):
    assert overlapping_texts(PICTURES[name]().figure) == []


def test_every_run_is_a_dot_at_its_examples_and_steps():
    picture = PICTURES["hyperbola"]()
    ax = picture.figure.axes[0]
    dots = [line for line in ax.lines if line.get_marker() == "o" and len(line.get_xdata())]
    drawn = [(line.get_xdata()[0], line.get_ydata()[0]) for line in dots]
    assert drawn == [(size * count, count) for size, count in STEPS.items()]
    names = [f"{size:,}" for size in STEPS]
    assert [text.get_text() for text in ax.texts] == [*names, "$E_{min}$", "$S_{min}$"]
    assert "fewer than 9.2 steps or 4,370 examples" in picture.caption  # 9.2 * 475


# In proportion, 64 times 0.35; bent, by (1 + 660 / 64) / (1 + 660 / 4096) = 9.74 times as much.
def test_two_rules_for_the_learning_rate_meet_where_they_are_told_to():
    picture = PICTURES["learning rates"]()
    straight, bent, measured = picture.figure.axes[0].lines
    assert list(measured.get_ydata()) == list(RATES.values())
    for line, factor in ((straight, 64), (bent, 9.74)):
        assert line.get_ydata()[-1] == pytest.approx(0.35 * factor, rel=1e-3)
        assert np.interp(64, line.get_xdata(), line.get_ydata()) == pytest.approx(0.35, rel=1e-2)
    assert "the batch grows 64 times, and the best learning rate 8.1 times" in picture.caption


def test_losses_fall_from_left_to_right():
    picture = PICTURES["noise"]()
    left, right = picture.figure.axes[0].get_xlim()
    assert left > right
    assert "grows from 61 to 3,016 examples" in picture.caption


def test_infinite_estimates_are_counted_and_not_drawn():
    picture = PICTURES["estimates"]()
    assert sum(bar.get_height() for bar in picture.figure.axes[0].patches) == 4
    assert "Of 5 estimates 1 are infinite" in picture.caption


# 69,000 / 16 -> 4,313; up to 790 billion 22,531 more; then 3,910,000 / 64 -> 61,094 (8 million of
# them already seen), and 5,700,000 / 128 -> 44,532 less what was already seen.
def test_steps_of_each_stage():
    picture = PICTURES["schedule"]()
    stages = [text.get_text() for text in picture.figure.axes[0].texts]
    assert stages == ["4,313 steps", "22,531 steps", "61,094 steps", "44,532 steps"]
    assert "132,470 steps in all" in picture.caption


def test_a_plan_says_tokens_passes_and_its_place():
    # 256 * 4,096 = 2**20 tokens, the critical batch: twice the fewest of both; 256 / (4 * 4) = 16.
    picture = plan()
    assert picture.caption.startswith(
        "A step of 1,048,576 tokens: each of 4 devices accumulates 16 micro-batches of 4, with "
    )
    place = picture.figure.axes[0].get_title()
    assert place == "2 times the fewest steps, 2 times the fewest tokens"


def test_a_plan_says_what_does_not_divide():
    caption = plan(num_devices=128).caption
    assert "cannot be shared out as whole micro-batches of 4 to each of 128 devices" in caption


def test_a_plan_says_whether_it_fits():
    assert plan().caption.endswith("fits on an A100-80.")
    large = plan("Llama-3-8B", micro_batch_size=8)
    assert large.caption.endswith("does not fit on an A100-80.")
    assert large.figure.axes[1].get_title() == "✗ does not fit"


def test_the_place_of_every_plan_is_on_its_curve():
    limits = set()
    for size, critical in ((16, 128 * 10**6), (16_384, 10**6)):
        ax = plan(global_batch_size=size, critical_batch_tokens=critical).figure.axes[0]
        curve, dot = ax.lines
        (x,), (y,) = dot.get_data()
        limits.add((ax.get_xlim(), ax.get_ylim()))
        assert min(curve.get_xdata()) < x < max(curve.get_xdata())
        assert min(curve.get_ydata()) < y < max(curve.get_ydata())
    assert len(limits) == 1


def test_only_the_micro_batch_changes_the_memory():
    def height(**changes):
        return sum(bar.get_height() for bar in plan(**changes).figure.axes[1].patches)

    assert height(global_batch_size=4096) == height(num_devices=64) == height()
    assert height(micro_batch_size=8) > height()


# 8.03 billion parameters with 16 bytes are 120 GiB, and eight sequences save 180 GiB more.
def test_a_bar_that_leaves_its_axis_says_how_high_it_is():
    small, large = (plan("Llama-3-8B", micro_batch_size=size).figure.axes[1] for size in (1, 8))
    assert small.get_ylim() == large.get_ylim()
    assert [text.get_text() for text in (*small.texts, *large.texts)] == ["300 ↑"]


def shown_while(monkeypatch, *, is_page):
    shown = []
    monkeypatch.setattr("course_utils.show.progress_bar.display", shown.append)
    if is_page:
        monkeypatch.setenv(PAGE, "unit.ipynb")
    else:
        monkeypatch.delenv(PAGE, raising=False)
    return shown, list(with_progress([4, 16], "batch sizes"))


def test_progress_is_silent_without_a_page(monkeypatch):
    assert shown_while(monkeypatch, is_page=False) == ([], [4, 16])


def test_progress_is_a_bar_that_disappears(monkeypatch):
    (box,), items = shown_while(monkeypatch, is_page=True)
    assert items == [4, 16]
    assert box.children[0].value == box.children[0].max == 2
    assert box.children[1].value == "of 2 batch sizes"
    assert box.layout.display == "none"


def test_a_bar_disappears_when_the_work_fails(monkeypatch):
    shown, _ = shown_while(monkeypatch, is_page=True)

    def fail():
        for _ in with_progress([1, 2], "runs"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert shown[-1].layout.display == "none"
