"""Explorers follow their controls, and stand still where a page has no widgets."""

import ipywidgets as widgets
import pytest

from course_utils.show import Choice, explorer, same_bytes_two_numbers


def an_explorer():
    return explorer(
        same_bytes_two_numbers,
        billion_parameters=Choice("model, billion parameters", [7, 70, 1000], 7),
        bytes_per_parameter=([2, 16], 16),
    )


def control_of(box, row=0):
    return box.children[row].children[1]


def label_of(box, row):
    return box.children[row].children[0].value


def test_explorer_changes_figure_and_number_with_its_slider():
    box = an_explorer()
    shown = box.children[-1]
    before = shown.value
    control_of(box).value = 70
    assert "1,043.1 GiB" in shown.value
    assert before.split("<svg")[1].split("<figcaption")[0] not in shown.value


def test_explorer_stands_still_without_widgets():
    box = an_explorer()
    control_of(box).value = 70
    bundle = box._repr_mimebundle_()
    still = same_bytes_two_numbers(70, 16)
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/html"] == still._repr_html_()
    assert bundle["text/plain"] == repr(box) == repr(still)


def control(label, values):
    def draw(value):
        return same_bytes_two_numbers(7, 16)

    box = explorer(draw, value=Choice(label, values, values[0]))
    assert label_of(box, 0) == label
    return control_of(box)


def test_sizes_are_sliders_with_a_label_and_thousands():
    slider = control("sequence, tokens", [512, 131_072])
    assert isinstance(slider, widgets.SelectionSlider)
    assert [text for text, _ in slider.options] == ["512", "131,072"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["fused", "written out"], widgets.ToggleButtons),
        (["all", 1, 2], widgets.ToggleButtons),
        ([f"Llama-{size}B" for size in range(100, 112)], widgets.Dropdown),
    ],
)
def test_kinds_are_buttons_or_a_list_where_they_take_more_than_a_line(values, kind):
    assert isinstance(control("kind", values), kind)


def test_without_a_label_the_keyword_is_shown():
    assert label_of(an_explorer(), 1) == "bytes per parameter"


def test_explorer_holds_no_output_widget():
    assert not any(isinstance(child, widgets.Output) for child in an_explorer().children)
