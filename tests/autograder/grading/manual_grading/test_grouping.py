"""Which texts are one card, and which never are."""

import random

import pytest

from autograder.grading.manual_grading.grouping import differences, groups_of, words

TEXT = (
    "On a device of 24 GB I would choose full recomputation, with the loss in pieces, since its "
    "peak of 21.9 GB is the only one below 22. On 80 GB nothing is recomputed."
)


def together(one: str, other: str) -> bool:
    return groups_of([one, other]) == [[0, 1]]


@pytest.mark.parametrize(
    "other",
    [
        TEXT.upper(),
        TEXT.replace(", ", " – ").replace(" ", "  \n"),
        TEXT.replace("21.9", "21.90").replace("24 GB", "24GB").replace("80", "80.0"),
        TEXT.replace("would choose", "choose"),
        TEXT.replace("since", "because"),
        TEXT.replace("24", "２４"),
    ],
)
def test_texts_that_say_the_same_in_the_same_words_are_together(other):
    assert together(TEXT, other)


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("21.9", "23.9"),
        TEXT.replace("21.9 GB", "21.9 MB"),
        TEXT.replace("24 GB", "80 GB", 1),
        TEXT.replace("is the only one below", "is the only one above"),
        TEXT.replace("would choose", "would not choose"),
        TEXT.replace("would choose", "wouldn’t choose"),
        TEXT.replace(
            "nothing is recomputed", "it is all the same to me whatever one chooses there"
        ),
        "",
    ],
)
def test_texts_that_may_be_worth_other_points_are_apart(other):
    assert not together(TEXT, other)


def test_signs_of_comparison_count():
    assert not together("intensity < ridge, so memory binds", "intensity > ridge, so memory binds")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("it keeps s + b bytes", "it keeps s - b bytes"),
        ("it keeps s - b bytes", "it keeps s b bytes"),
        ("a gain of -3 GB", "a gain of 3 GB"),
        ("a gain of −3 GB", "a gain of 3 GB"),
        ("peak / layers is kept", "peak * layers is kept"),
        ("n^2 of them", "n*2 of them"),
        ("n**2 of them", "n*2 of them"),
        ("the peak ≠ 22 GB", "the peak = 22 GB"),
    ],
)
def test_signs_of_a_formula_count(one, other):
    assert not together(one, other)


def test_dashes_and_emphasis_do_not_count():
    said = "full recomputation – the loss in pieces"
    assert together(f"*{said.replace('–', '-')}*", said)
    assert together("a gain of - 3 GB", "a gain of −3 GB")
    assert together("well-known, and **bold**", "well known and bold")


def test_groups_do_not_depend_on_the_order_of_texts():
    texts = [TEXT, TEXT.lower(), TEXT.replace("since", "because"), "Another.", "another", "21 GB"]
    wanted = {frozenset(texts[:3]), frozenset(texts[3:5]), frozenset(texts[5:])}
    for seed in range(10):
        random.Random(seed).shuffle(texts)
        assert {frozenset(texts[n] for n in group) for group in groups_of(texts)} == wanted


def test_numbers_have_one_form():
    assert words("1,000 0.50 007 21.90") == ("1000", "0.5", "7", "21.9")


def test_what_differs_is_told_and_nothing_is_left_out():
    first, text = "It is full, since I say so.", "It is full,  because I\nsay so!"
    pieces = differences(text, first)
    assert "".join(piece for piece, _ in pieces) == text
    assert [piece.strip() for piece, differs in pieces if differs] == ["because"]
    assert differences(first.upper(), first) == [(first.upper(), False)]


def test_what_differs_in_blanks_alone_is_shown_whole():
    for text in ("", " \n ", "\n\nIt is full."):
        pieces = differences(text, "It is full.")
        assert "".join(piece for piece, _ in pieces) == text
    assert not any(differs for _, differs in pieces)


def test_marks_beyond_those_of_any_writing_do_not_count():
    marks = "\u0316\u0301"
    assert words("é " + "e" + marks * 40) == words("é " + "e" + marks * 50)


def test_endless_texts_are_apart_unless_they_are_equal():
    long = "word " * 200_000
    assert groups_of([long, long.upper(), long + "more"]) == [[0, 1], [2]]
    assert differences(long + "more", long) == [(long + "more", True)]
