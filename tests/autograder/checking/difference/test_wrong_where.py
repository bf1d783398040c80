"""A clue says only what holds exactly in every case, gently first, soon, and never the formula."""

import itertools
import math
import random
from types import SimpleNamespace

import pytest

from autograder.checking.difference.case_sizes import table_of
from autograder.checking.difference.compared import Compared
from autograder.checking.difference.factor_or_term import find_amount
from autograder.checking.difference.wrong_where import clue, where

RNG = random.Random(5)
NAMES = ("num_sequences", "seq_len", "num_heads", "num_kv_heads", "head_dim")
CASES = [
    dict(zip(NAMES, (b, RNG.randrange(3, 99, 2), a, kv, 2 * RNG.randint(2, 9)), strict=True))
    for b in (1, 1, 1, 2, 3, 5, 9)
    for a, kv in ((4, 4), (6, 2), (8, 1))
]


def right(b, s, a, kv, d):
    return b * s * (4 * a * d + 4 * kv * d) + 5 * a * b * s * s + 16 * b * s


def numbers(formula, cases=CASES):
    return [formula(*case.values()) for case in cases]


def place(formula, wanted=right, cases=CASES):
    return where(cases, numbers(wanted, cases), numbers(formula, cases))


def amount(formula, wanted=right, cases=CASES):
    return by_what(cases, numbers(wanted, cases), numbers(formula, cases))


def by_what(cases, wanted, got):
    """The factor or the term of sizes by which all wrong cases are off."""
    answer = Compared(table_of(cases), wanted, got)
    found = None if answer.is_a_guess else find_amount(answer, lambda: None)
    return found and " ".join(found)


def told(formula, wanted=right, cases=CASES, *, may_say_how_much=False, **more):
    got, asked = numbers(formula, cases), numbers(wanted, cases)
    return clue(cases, asked, got, may_say_how_much=may_say_how_much, **more)


def test_right_where_a_size_is_one():
    said = place(lambda b, s, a, kv, d: right(b, s, a, kv, d) - (b - 1) * (s + d))
    assert said == (
        "Right in all 9 cases where num_sequences is 1, wrong in the others. "
        "What changes in the others?"
    )


def test_right_where_two_sizes_are_equal():
    said = place(lambda b, s, a, kv, d: right(b, s, a, a, d))
    assert said.startswith("Right in all 7 cases where num_heads equals num_kv_heads, wrong")


def test_one_other_case_is_enough_to_be_silent():
    got = numbers(lambda b, s, a, kv, d: right(b, s, a, a, d))
    got[-1] = right(*CASES[-1].values())
    assert where(CASES, numbers(right), got) is None


def flagged(n, is_on, kind, width):
    return 3 * n * width + 7 * is_on + 11 * (kind == "mean")


FLAGGED = [
    {"n": n, "is_on": is_on, "kind": kind, "width": width}
    for n, is_on, kind, width in zip(
        (2, 3, 5, 7, 11, 13, 17, 19, 23, 29),
        (True, False, False, True, True, False, True, False, True, False),
        ("sum", "mean", "max", "sum", "mean", "max", "max", "sum", "mean", "sum"),
        (2, 4, 4, 4, 2, 2, 4, 2, 2, 4),
        strict=True,
    )
]


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (lambda n, on, kind, w: flagged(n, False, kind, w), "Right in all 5 cases where is_on is"),
        (lambda n, on, kind, w: flagged(n, on, "sum", w), "Wrong in all 3 cases where kind is 'm"),
        (lambda n, on, kind, w: flagged(n, on, kind, 2), "Right in all 5 cases where width is 2"),
    ],
)
def test_flags_words_and_one_of_two_numbers(formula, words):
    assert place(formula, flagged, FLAGGED).startswith(words)


def test_no_accident_of_one_number_among_many():
    assert place(lambda n, *rest: flagged(n, *rest) + (n != 13), flagged, FLAGGED) is None
    assert place(lambda n, *rest: flagged(n, *rest) + (n not in (13, 17)), flagged, FLAGGED) is None


def test_no_reversed_direction():
    """Who mixes up two sizes is never wrong only where they are equal."""
    assert place(lambda b, s, a, kv, d: right(b, s, a, kv, d) + (a == kv)) is None


def test_two_properties_that_split_alike_are_not_told():
    cases = [case | {"copy": case["num_sequences"]} for case in CASES]
    got = numbers(lambda b, s, a, kv, d: right(b, s, a, kv, d) + b - 1)
    assert where(cases, numbers(right), got) is None


def test_equal_by_the_value_that_matters_is_no_equality():
    """Both are 1 in all cases where they are equal: the student may have forgotten both."""
    cases = [{"x": x, "y": y} for x, y in ((1, 1), (1, 1), (1, 1), (2, 3), (3, 5), (5, 1), (1, 4))]
    said = place(lambda x, y: 7, lambda x, y: 7 * x * y, cases)
    assert said.startswith("Right in all 3 cases where x and y are 1, wrong in the others.")


def test_a_division_that_leaves_nothing():
    cases = [{"parts": p, "whole": w} for p in (2, 3, 4) for w in (12, 13, 18, 23, 24, 31)]
    said = place(lambda p, w: w // p, lambda p, w: -(-w // p), cases)
    assert said.startswith("Right in all 8 cases where parts divides whole, wrong in the others.")


def product(b, s, a, kv, d):
    return 4 * b * s * a * d


def test_a_factor_is_missing_or_too_much():
    assert amount(lambda b, s, a, kv, d: 4 * b * a * d, product) == (
        "In all 21 cases your number is seq_len times too small. Where does that factor come in?"
    )
    assert "seq_len times too large" in amount(lambda *c: product(*c) * c[1], product)
    assert "head_dim / seq_len times the right one" in amount(
        lambda b, s, a, kv, d: 4 * b * d * a * d, product
    )


def test_a_factor_with_a_constant_names_its_size_only():
    said = amount(lambda b, s, a, kv, d: b * s * a, lambda b, s, a, kv, d: 4 * b * s * a * d)
    assert "off by a factor that changes with head_dim only." in said
    assert "4" not in said


def test_a_term_is_missing_or_too_much():
    small = amount(lambda b, s, a, kv, d: right(b, s, a, kv, d) - 4 * b * s)
    large = amount(lambda b, s, a, kv, d: right(b, s, a, kv, d) + 2 * b * s * a * d)
    assert small == (
        "In all 21 cases your number is too small by exactly 4 · num_sequences · seq_len. "
        "What could that be?"
    )
    assert "too large by exactly 2 · num_sequences · seq_len · num_heads · head_dim." in large


def test_a_wrong_sign_is_a_term_twice():
    said = amount(lambda b, s, a, kv, d: right(b, s, a, kv, d) - 2 * 16 * b * s)
    assert "too small by exactly 32 · num_sequences · seq_len." in said
    assert amount(lambda *c: -right(*c)) is None


def test_one_number_more_is_enough_to_say_nothing():
    got = numbers(lambda b, s, a, kv, d: right(b, s, a, kv, d) - 4 * b * s)
    got[7] -= 1
    assert by_what(CASES, numbers(right), got) is None


def test_one_term_without_a_factor_or_with_another():
    def core(b, s, a, kv, d):
        return right(b, s, a, kv, d) - 5 * a * b * s * s

    lacking = amount(lambda b, s, a, kv, d: core(b, s, a, kv, d) + 5 * a * b * s)
    twice = amount(lambda b, s, a, kv, d: core(b, s, a, kv, d) + 5 * a * a * b * s * s)
    mixed = amount(lambda b, s, a, kv, d: right(b, s, a, a, d))
    assert "off as if one term lacked the factor seq_len." in lacking
    assert "off as if one term had the factor num_heads once too often." in twice
    assert "off as if one term mixed up num_heads and num_kv_heads." in mixed


def test_two_sizes_that_are_always_equal_are_not_told_apart():
    cases = [case | {"copy": case["num_heads"]} for case in CASES]
    got = numbers(lambda b, s, a, kv, d: right(b, s, a, a, d))
    assert by_what(cases, numbers(right), got) is None


def test_a_rounding_and_one_too_many():
    def part(b, s, a, kv, d):
        return s * d / 7

    assert "the right one rounded down." in amount(lambda b, s, a, kv, d: s * d // 7, part)

    def floor(b, s, a, kv, d):
        return s * d * 100 // 7

    assert "one too large." in amount(lambda *c: floor(*c) + (c[0] < 9), floor)
    assert amount(lambda *c: floor(*c) + 2 * (c[0] < 9), floor) is None


def test_a_float_within_its_tolerance():
    def wanted(b, s, a, kv, d):
        return b * s * d / 7.3

    said = told(
        lambda b, s, a, kv, d: s * d / 7.3 * (1 + 1e-13),
        wanted,
        tolerance=1e-9,
        may_say_how_much=True,
    )
    assert "your number is num_sequences times too small" in said
    assert told(lambda *c: wanted(*c) * (1 + 1e-12), wanted, tolerance=1e-9) is None


def test_the_steps_go_from_where_to_how_much():
    def keys(b, s, a, kv, d):
        return right(b, s, a, a, d)

    assert told(keys).endswith("wrong in the others. What changes in the others?")
    second = told(keys, may_say_how_much=True)
    assert second.startswith("Right in all 7 cases where num_heads equals num_kv_heads, wrong in ")

    def term(b, s, a, kv, d):
        return right(b, s, a, kv, d) - 4 * b * s

    assert told(term) is None
    assert "too small by exactly 4" in told(term, may_say_how_much=True)


def test_the_first_step_never_says_an_amount():
    for change in (lambda b, s, a, kv, d: b * s, lambda b, s, a, kv, d: (b - 1) * s * a * d):
        said = told(lambda *c, change=change: right(*c) - change(*c))
        assert "exactly" not in (said or "")


def test_every_clue_ends_in_its_one_question():
    changes = [
        lambda b, s, a, kv, d: b * s,
        lambda b, s, a, kv, d: (b - 1) * s,
        lambda b, s, a, kv, d: (a - kv) * s,
        lambda b, s, a, kv, d: 1,
    ]
    for change, much in itertools.product(changes, (False, True)):
        said = told(lambda *c, change=change: right(*c) - change(*c), may_say_how_much=much)
        if said or much:
            assert said.endswith("?")
            assert said.count("?") == 1


def test_a_dictionary_speaks_of_its_first_wrong_number():
    wanted = [{"forward_flops": 2 * c["seq_len"], "key_width": c["head_dim"]} for c in CASES]
    got = [
        w | {"key_width": w["key_width"] * c["seq_len"]} for w, c in zip(wanted, CASES, strict=True)
    ]
    said = clue(CASES, wanted, got, may_say_how_much=True)
    assert said.startswith("Key width: in all 21 cases your number is seq_len times too large.")


def test_what_cannot_be_compared_has_no_clue():
    wanted = [{"a": 1}] * len(CASES)
    for got in ({}, {"a": "1"}, {"a": True}, {"a": 10**200}, 1, None):
        assert clue(CASES, wanted, [got] * len(CASES), may_say_how_much=True) is None
    for got in (math.inf, math.nan):
        many = [got, *numbers(right)[1:]]
        assert clue(CASES, numbers(right), many, may_say_how_much=True) is None


def test_a_right_answer_has_no_clue():
    assert told(right, may_say_how_much=True) is None


def product_of_four(b, s, a, kv, d):
    return 4 * b * s**2 * a * d


def all_and_more(b, s, a, kv, d):
    return b * s * a * kv * d + 16 * b * s


def two_sizes(b, s, a, kv, d):
    return b * s


def a_sum(b, s, a, kv, d):
    return 4 * b + 2 * s * d


@pytest.mark.parametrize(
    "guess",
    [
        lambda *sizes: 1,
        lambda *sizes: 0,
        lambda *sizes: math.prod(sizes),
        lambda *sizes: 4 * math.prod(sizes),
        lambda *sizes: sum(sizes),
        lambda *sizes: max(sizes),
        *(lambda *sizes, n=n: 4 * sizes[n] for n in range(5)),
        *(lambda *sizes, n=n: sizes[n] ** 2 for n in range(5)),
    ],
)
@pytest.mark.parametrize(
    "wanted", [right, product_of_four, all_and_more, two_sizes, a_sum], ids=lambda f: f.__name__
)
def test_a_guess_does_not_get_the_formula(guess, wanted):
    said = told(guess, wanted, may_say_how_much=True)
    assert said is None or (said.startswith("Right in") and "Your number" not in said)
    assert amount(guess, wanted) is None or numbers(guess) == numbers(wanted)


def test_noise_has_no_explanation():
    for seed in range(30):
        rng = random.Random(seed)
        assert (
            told(lambda *c, r=rng: right(*c) + r.randint(2, 10**6), may_say_how_much=True) is None
        )


def counted(limit):
    """A clock of the processor that goes on by a second whenever somebody looks."""
    looks = SimpleNamespace(count=0)

    def clock():
        looks.count += 1
        return float(looks.count)

    def hard(b, s, a, kv, d):
        return right(b, s, a, kv, d) + b * (s % 3)

    said = told(hard, may_say_how_much=True, seconds=limit, clock=clock)
    return said, looks.count


def test_the_search_ends_with_its_seconds():
    said, all_looks = counted(math.inf)
    assert said is None
    for limit in (3, 50, all_looks // 2):
        said, looks = counted(limit)
        assert said is None
        assert looks == limit + 2  # one at the start, and the one that is too late


def test_what_was_found_in_time_is_said():
    ticks = itertools.chain([0.0] * 200, itertools.repeat(2.0))

    def keys(b, s, a, kv, d):
        return right(b, s, a, a, d) + (a != kv) * (s % 3 + 1)

    said = told(keys, may_say_how_much=True, seconds=1, clock=lambda: next(ticks))
    assert said.startswith("Right in all 7 cases where num_heads equals num_kv_heads")
    assert said.endswith("What changes in the others?")


def test_a_search_that_gives_up_is_told_by_where_it_ends():
    right = [3, 90, 1000, 1001, 5000, 70_000]
    cases = [{"rows": number, "columns": number % 7} for number in right]
    said = clue(cases, right, [min(each, 1000) for each in right], may_say_how_much=False)
    assert said == (
        "Right up to 1,000; where the right number is larger, yours stays there. "
        "What ends at that number in your code?"
    )
    said = clue(cases, right, [max(each, 1001) for each in right], may_say_how_much=False)
    assert said.startswith("Right down to 1,001; where the right number is smaller, yours stays")
    with_gap = [min(each, 1000) for each in right[:-1]] + [999]
    assert clue(cases, right, with_gap, may_say_how_much=False) is None
