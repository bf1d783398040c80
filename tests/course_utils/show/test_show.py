"""Figures suit light and dark pages, and `try_it` accepts stubs."""

import re

import pytest
import torch

from course_utils import preflight
from course_utils.distributed import RankError, VirtualCluster
from course_utils.preflight import check_setup
from course_utils.show import (
    Picture,
    computed_and_measured,
    same_bytes_two_numbers,
    try_it,
)
from course_utils.show.picture import axes


def test_drawing_is_deterministic():
    first, second = (same_bytes_two_numbers(7, 16) for _ in range(2))
    assert first.svg() == second.svg()
    assert first.png() == second.png()
    assert first.png().startswith(b"\x89PNG")


def test_a_drawing_takes_the_ink_and_the_paper_of_its_page():
    drawn = same_bytes_two_numbers(7, 16).svg()
    assert re.search(r"style=\"[^\"]*fill: var\(--jp-ui-font-color1, currentColor\)", drawn)
    assert "#000000" not in drawn
    assert "#ffffff" not in drawn
    assert "<style" not in drawn  # it would change the page around the figure
    assert ">112 GB</text>" in drawn  # letters, not outlines


def test_no_two_figures_on_a_page_share_an_id():
    drawn = [same_bytes_two_numbers(size, 16).svg() for size in (7, 70)]
    ids = [set(re.findall(r' id="([^"]*)"', each)) for each in drawn]
    used = [set(re.findall(r'(?:url\(|href=")#([^")]*)', each)) for each in drawn]
    assert ids[0] and not ids[0] & ids[1]
    assert ids[0] >= used[0] and ids[1] >= used[1]


def test_a_drawing_of_very_many_points_is_a_png():
    figure, ax = axes()
    ax.plot([n % 7919 * n % 7907 for n in range(10_000)])
    shown = Picture(figure, "Points.")._repr_html_()
    assert "<svg" not in shown
    assert '<img alt="Points."' in shown


def test_picture_has_a_caption_which_is_its_alternative_text():
    picture = same_bytes_two_numbers(billion_parameters=70, bytes_per_parameter=16)
    assert "1,120 GB" in picture.caption
    assert "1,043.1 GiB" in picture.caption
    assert f'role="img" aria-label="{picture.caption}"' in picture._repr_html_()
    assert repr(picture) == f"Picture: {picture.caption}"


@pytest.mark.parametrize(("computed", "words"), [([1, 2], "2 of 2"), ([1, 3], "1 of 2")])
def test_computed_and_measured_counts_agreements(computed, words):
    picture = computed_and_measured(
        [8, 16], computed=computed, measured=[1, 2], size_label="tokens", unit="bytes"
    )
    assert words in picture.caption
    labels = [text.get_text() for text in picture.figure.axes[0].get_legend().get_texts()]
    assert labels == ["computed", "measured"]


@pytest.mark.parametrize(
    ("computed", "ticks"),
    [([4, 32], ["4", "32"]), ([1.7256e-4, 1.38061e-3], ["10^{-4}", "10^{-3}", "10^{-2}"])],
)
def test_only_values_from_one_on_are_ticks_themselves(computed, ticks):
    picture = computed_and_measured(
        [8, 16], computed=computed, measured=computed, size_label="side", unit="seconds"
    )
    (ax,) = picture.figure.axes
    picture.figure.canvas.draw()
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert [label.removeprefix(r"$\mathdefault{").removesuffix("}$") for label in labels] == ticks


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
        "Peak against tokens: 2 of 2 measurements lie exactly on the computed line. Flat up to 2."
    )


def test_bars_stand_on_one_axis_and_say_how_long_they_are_beyond_it():
    small, large = (same_bytes_two_numbers(size, 16).figure.axes[0] for size in (7, 405))
    assert small.get_xlim() == large.get_xlim()
    assert [text.get_text() for text in small.texts] == ["104.3 GiB", "112 GB"]
    assert [text.get_text() for text in large.texts] == ["6,035.0 GiB →", "6,480 GB →"]


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
