"""Figures have captions, explorers follow their sliders, and `try_it` accepts stubs."""

import ipywidgets as widgets
import pytest
import torch

from course_utils import preflight
from course_utils.distributed import RankError, VirtualCluster
from course_utils.preflight import check_setup
from course_utils.show import (
    computed_and_measured,
    explorer,
    same_bytes_two_numbers,
    try_it,
)


def test_drawing_is_deterministic():
    first, second = (same_bytes_two_numbers(7, 16) for _ in range(2))
    assert first.png() == second.png()
    assert first.png().startswith(b"\x89PNG")


def test_picture_has_a_caption_which_is_its_alternative_text():
    picture = same_bytes_two_numbers(billion_parameters=70, bytes_per_parameter=16)
    assert "1,120 GB" in picture.caption
    assert "1,043.1 GiB" in picture.caption
    assert f'alt="{picture.caption}"' in picture._repr_html_()
    assert repr(picture) == f"Picture: {picture.caption}"


@pytest.mark.parametrize(("computed", "words"), [([1, 2], "2 of 2"), ([1, 3], "1 of 2")])
def test_computed_and_measured_counts_agreements(computed, words):
    picture = computed_and_measured(
        [8, 16], computed=computed, measured=[1, 2], size_label="tokens", unit="bytes"
    )
    assert words in picture.caption
    labels = [text.get_text() for text in picture.figure.axes[0].get_legend().get_texts()]
    assert labels == ["computed", "measured"]


def test_the_line_may_have_points_without_a_measurement():
    picture = computed_and_measured(
        [1, 2, 3],
        [5, 5, 9],
        [5, None, 9],
        size_label="tokens",
        unit="peak",
        is_log=False,
        message="Flat up to 2.",
    )
    line, dots = picture.figure.axes[0].lines
    assert (list(line.get_xdata()), list(dots.get_xdata())) == ([1, 2, 3], [1, 3])
    assert picture.caption == (
        "Peak against tokens, 1 to 3: 2 of 2 measurements lie exactly on the computed line. "
        "Flat up to 2."
    )


def test_explorer_changes_figure_and_number_with_its_slider():
    box = explorer(
        same_bytes_two_numbers,
        billion_parameters=([7, 70], 7),
        bytes_per_parameter=([2, 16], 16),
    )
    slider, _, shown = box.children
    before = shown.value
    slider.value = 70
    assert "1,043.1 GiB" in shown.value
    assert before.split("base64,")[1] != shown.value.split("base64,")[1]


def test_explorer_holds_no_output_widget():
    box = explorer(
        same_bytes_two_numbers, billion_parameters=([7], 7), bytes_per_parameter=([2], 2)
    )
    assert not any(isinstance(child, widgets.Output) for child in box.children)


def test_try_it_shows_call_and_result(capsys):
    try_it(pow, 2, 10)
    assert capsys.readouterr().out == "pow(2, 10) = 1024\n"


def test_try_it_accepts_a_stub(capsys):
    def stub(size):
        raise NotImplementedError

    try_it(stub, 3)
    assert capsys.readouterr().out == "stub(3): not written yet.\n"


def test_try_it_accepts_a_stub_on_a_rank_and_raises_other_errors(capsys):
    def stub(comm):
        raise NotImplementedError

    def on_two_ranks(function):
        return VirtualCluster(2).run(function).results

    try_it(on_two_ranks, stub)
    assert capsys.readouterr().out == "on_two_ranks(stub): not written yet.\n"
    with pytest.raises(RankError):
        try_it(on_two_ranks, lambda comm: 1 / 0)


def test_try_it_shows_a_dictionary_with_one_entry_per_line(capsys):
    try_it(lambda size: {"saved_bytes": size, "driver_bytes": 2 * size}, 20_000)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "    saved_bytes: 20_000",
        "    driver_bytes: 40_000",
    ]


def test_explorer_says_what_to_do_without_widgets():
    box = explorer(
        same_bytes_two_numbers, billion_parameters=([7], 7), bytes_per_parameter=([2], 2)
    )
    assert repr(box) == "Sliders and a picture: run this cell to move them."


def test_check_setup_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(preflight, "REQUIRED", ("torch", "no_such_package"))
    check_setup()
    assert capsys.readouterr().out.startswith("Missing: no_such_package. Close JupyterLab")


def test_check_setup_says_versions_and_device(capsys):
    check_setup()
    assert "torch 2.13.0" in capsys.readouterr().out


def test_try_it_names_functions_and_shapes(capsys):
    def size(call, tensors):
        return len(tensors)

    try_it(size, len, [torch.ones(3, 5), torch.ones(2)])
    assert capsys.readouterr().out == "size(len, [<tensor (3, 5)>, tensor([1., 1.])]) = 2\n"
