"""What a check says of right and wrong answers, and of answers that misbehave."""

import dataclasses
import math

import pytest

from autograder.checking import bounded_call
from autograder.checking.exercise_check import Check
from autograder.checking.judges import Behaviour, EqualTo, Mistake
from autograder.checking.lookup import check_of
from autograder.checking.scoring import score_answer
from tests.answer_bank import make


def double(n):
    return 2 * n


CHECK = Check(
    cases=lambda seed: [{"n": n} for n in range(3, 30)],
    judge=EqualTo(double, Mistake("You triple it. How often is n taken?", lambda n: 3 * n)),
    reference=double,
)
PARTS = Check(
    cases=lambda seed: [{"n": n} for n in range(3, 30)],
    judge=EqualTo(lambda n: {"double": 2 * n, "square": n * n}),
    reference=double,
)


def verdict_on(answer, check=CHECK, limit_seconds=5.0):
    return score_answer(check, answer, [1], limit_seconds).verdict("exercise", 2.0, tell_all=True)


TROUBLES = {
    "a tensor": (
        "import torch\ndef f(n): return torch.tensor(2 * n)",
        "Wanted an int; it returned a torch.Tensor",
    ),
    "None": ("def f(n): pass", "It returned None."),
    "a print": ("def f(n): print(2 * n)", "It returned None."),
    "a string": ("def f(n): return str(2 * n)", "Wanted an int; it returned a str"),
    "a bool": ("def f(n): return True", "Wanted an int; it returned a bool"),
    "a set": ("def f(n): return {2 * n}", "It returned a set."),
    "a class": ("class f(int): pass", "It returned a f."),
    "raises": ("def f(n): return n / 0", "raised ZeroDivisionError in the line `"),
    "too few arguments": ("def f(): return 6", "takes 0 positional arguments but 1 was given"),
    "huge": ("def f(n): return -(10**400)", "a number beyond all sizes"),
    "a name that is not there": ("def f(n): return 2 * m", "name 'm' is not defined"),
    "beyond all sizes": ("def f(n): return 10**200", "a number beyond all sizes"),
    "infinite": ("def f(n): return float('inf')", "got inf"),
    "not a number": ("def f(n): return float('nan')", "got nan"),
    "no function": ("f = 5", "It is an int, not a function."),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_in_one_sentence_with_a_question(name):
    source, words = TROUBLES[name]
    verdict = verdict_on(make(source, "f"))
    assert words in verdict.sentence
    assert verdict.sizes in ("n=3", "")
    assert verdict.hint.endswith("?")
    assert verdict.points == 0


def test_never_returning_is_stopped():
    def answer(n):
        while True:
            pass

    assert "Stopped after 0.2 seconds" in verdict_on(answer, limit_seconds=0.2).sentence


def test_print_without_return_is_asked_about():
    assert verdict_on(make("def f(n): print(2 * n)", "f")).hint == (
        "It prints something. Does it also return it?"
    )


def test_division_that_loses_digits_is_asked_about():
    verdict = verdict_on(lambda n: 2 * n + 1e-9)
    assert "Wanted 6, got 6.000000001" in verdict.sentence
    assert "A division with / makes a float" in verdict.hint


def test_ratios_far_from_one_are_compared_as_ratios():
    assert "pencil" in verdict_on(lambda n: 2e-10 * n * n).hint
    assert "Always 1e-10 times" in verdict_on(lambda n: 2e-10 * n).hint


def test_numpy_number_earns_the_points():
    assert verdict_on(make("import numpy\ndef f(n): return numpy.int64(2 * n)", "f")).passed


def test_mistake_that_fits_the_first_failure_only_is_not_hinted_at():
    assert "pencil" in verdict_on(lambda n: 9 if n == 3 else 2 * n + n % 5 + 1).hint


def test_whole_float_earns_the_points_and_a_remark():
    verdict = verdict_on(lambda n: 2.0 * n)
    assert verdict.passed
    assert "You returned a float; a count is a whole number" in verdict.sentence


def test_known_mistake_gives_its_hint():
    assert verdict_on(lambda n: 3 * n).hint == "You triple it. How often is n taken?"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda n: n, "Exactly half in every case."),
        (lambda n: 4 * n, "Exactly twice in every case."),
        (lambda n: 16 * n, "bits where bytes are meant?"),
        (lambda n: 2048 * n, "Which step between KiB, MiB and GiB is missing?"),
        (lambda n: 10 * n, "Always 5 times the right answer. Which constant factor is that?"),
        (lambda n: 42, "Which of the sizes should it depend on?"),
    ],
)
def test_constant_ratio_is_the_diagnosis(answer, words):
    assert words in verdict_on(answer).hint


def test_large_counts_are_compared_exactly():
    check = Check(cases=lambda seed: [{"n": 2**60}], judge=EqualTo(double), reference=double)
    assert verdict_on(lambda n: 2 * n, check).passed
    assert not verdict_on(lambda n: 2 * n + 1, check).passed
    assert not verdict_on(lambda n: 2 * n - 64, check).passed


def test_the_line_shown_for_an_error_is_the_students():
    source = "import torch\ndef f(n):\n    return torch.empty(n, device='meta').sum().item()"
    assert (
        "`return torch.empty(n, device='meta').sum().item()`"
        in verdict_on(make(source, "f")).sentence
    )


def test_unknown_mistake_asks_for_a_pencil():
    assert "pencil" in verdict_on(lambda n: 7 * n + 1).hint


def test_hint_that_fits_only_some_failures_yields_to_one_that_fits_all():
    check = Check(
        cases=lambda seed: [{"n": n} for n in (3, 5, 8)],
        judge=EqualTo(
            double,
            Mistake("Fits three only?", lambda n: 9),
            Mistake("Fits all?", lambda n: n * n),
        ),
        reference=double,
    )
    assert verdict_on(lambda n: n * n, check).hint == "Fits all?"


def test_each_part_right_everywhere_earns_its_share():
    verdict = verdict_on(lambda n: {"double": 2 * n, "square": n + 6}, PARTS)
    assert verdict.points == 1.0
    assert "Wanted 16 for square, got 10" in verdict.sentence


def test_part_right_in_one_case_only_earns_nothing():
    assert verdict_on(lambda n: {"double": 6, "square": 9}, PARTS).points == 0


def test_other_keys_are_ignored_and_missing_ones_named():
    assert verdict_on(lambda n: {"double": 2 * n, "square": n * n, "more": 1}, PARTS).passed
    assert "Wanted the keys double, square; got double" in (
        verdict_on(lambda n: {"double": 2 * n}, PARTS).sentence
    )
    assert "Wanted a dictionary with double, square; it returned an int" in (
        verdict_on(lambda n: 2 * n, PARTS).sentence
    )


def test_verdict_is_shown_as_text_and_as_escaped_html():
    verdict = verdict_on(make("def f(n): raise ValueError('<b>bold</b>')", "f"))
    assert "<b>bold</b>" in str(verdict)
    assert "&lt;b&gt;bold&lt;/b&gt;" in verdict._repr_html_()


def test_a_near_miss_is_not_blamed_on_a_division():
    verdict = verdict_on(lambda n: 2 * n + (n > 2) * 1)
    assert "division" not in verdict.hint


def test_numbers_of_an_implementation_count_together():
    judge = EqualTo(lambda n: {"wrong": 0, "saved_bytes": n}, together=True)
    check = Check(cases=CHECK.cases, judge=judge, reference=double)
    right = verdict_on(lambda n: {"wrong": 0, "saved_bytes": n}, check)
    half = verdict_on(lambda n: {"wrong": 0, "saved_bytes": 2 * n}, check)
    assert (right.points, half.points) == (2, 0)
    assert "Wanted 3 for saved_bytes, got 6" in half.sentence
    assert "Passed" not in half.sentence


def observed(answer, case):
    """Observe what an answer keeps, and describe a division by zero, as an `observe` may do."""
    try:
        return {"kept": answer(case["n"])}
    except ZeroDivisionError as error:
        return bounded_call.describe_error(error)


SCENARIOS = Check(
    cases=lambda seed: [{"scenario": name, "n": n} for name in ("low", "high") for n in (2, 4)],
    judge=Behaviour(
        lambda scenario, n: {"kept": n},
        Mistake("Everything is kept. What may go?", lambda scenario, n: {"kept": 9}),
        scenarios=("low", "high"),
    ),
    reference=double,
    observe=observed,
)


def test_nan_is_right_where_it_is_wanted_and_is_recognised_as_a_mistake():
    judge = EqualTo(lambda x: x, Mistake("Why NaN?", lambda x: math.nan), together=True)
    assert judge({"x": math.nan}, math.nan).passed
    wrong = judge({"x": math.inf}, math.nan)
    assert wrong.hints == ("Why NaN?",)
    assert wrong.sentence == "Wanted inf, got nan."
    assert not judge({"x": math.nan}, math.inf).passed
    assert not judge({"x": math.inf}, -math.inf).passed


def test_each_scenario_earns_its_share():
    cases = iter([2, 4, 9, 9])
    verdict = verdict_on(lambda n: next(cases), SCENARIOS)
    assert verdict.points == 1.0
    assert verdict.hint == "Everything is kept. What may go?"
    assert "Wanted 2 for kept, got 9" in verdict.sentence


def test_an_error_costs_only_its_scenario():
    cases = iter([2, 4, 0, 0])
    verdict = verdict_on(lambda n: n // bool(next(cases)), SCENARIOS)
    assert verdict.points == 1.0
    assert "It raised ZeroDivisionError" in verdict.sentence
    assert verdict.hint.endswith("?")


def test_an_error_of_observe_itself_is_not_called_raised():
    def observe(answer, case):
        try:
            raise TypeError("wanted a list, got a tuple")
        except TypeError as error:
            # Without a line of the student's: `observe` is the course's.
            return bounded_call.describe_error(error) | {"line": ""}

    verdict = verdict_on(double, dataclasses.replace(SCENARIOS, observe=observe))
    assert verdict.sentence == (
        "What it returned has another form: wanted a list, got a tuple. Wrong in 4 of 4 cases."
    )
    assert verdict.hint == "What does the exercise ask your function to return?"


def test_a_number_rounded_to_float32_gets_a_hint_on_rounding():
    judge = Behaviour(lambda x: {"weight": x}, relative_tolerance=1e-12)
    assert judge({"x": 0.3}, {"weight": 0.3 + 1e-8}).hints[0].startswith("Nearly.")
    assert judge({"x": 0.3}, {"weight": 0.3 + 1e-3}).hints == ()


def test_of_two_scenarios_that_fail_in_two_ways_the_first_gives_the_hint():
    cases = iter([9, 9, 0, 0])
    verdict = verdict_on(lambda n: next(cases) * n // n, SCENARIOS)
    assert verdict.points == 0
    assert verdict.hint == "Everything is kept. What may go?"


def test_without_scenarios_an_error_is_wrong_in_its_case():
    judge = Behaviour(lambda n: {"kept": n})
    check = Check(cases=CHECK.cases, judge=judge, reference=double, observe=observed)
    assert verdict_on(lambda n: n, check).passed
    assert verdict_on(lambda n: n // (n - 5), check).points == 0


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x.exp().sum().backward()", "Was recording on"),
        (
            "y = (2 * x.requires_grad_()).exp(); y.sum().backward(); y.sum().backward()",
            "Which graph",
        ),
        ("(2 * x.requires_grad_()).backward()", "Which gradient comes in"),
        ("(x > 0).requires_grad_()", "Which of the tensors wanted a gradient"),
    ],
)
def test_errors_of_autograd_have_hints_of_their_own(source, words):
    answer = make(f"import torch\ndef f(n):\n    x = torch.ones(2)\n    {source}", "f")
    assert words in verdict_on(answer).hint


def test_numbers_that_look_alike_are_both_shown_in_full():
    check = dataclasses.replace(CHECK, judge=EqualTo(lambda n: 133252.56306, relative_tolerance=0))
    verdict = verdict_on(lambda n: 133252.563061, check)
    assert "Wanted 133,252.56306, got 133,252.563061" in verdict.sentence


def test_the_courses_own_answer_is_called_lent():
    lent = check_of("u01-attention-flops").reference
    sentence = verdict_on(lent).sentence
    assert "attention_flops, the course's own: `answer` lends it" in sentence


def test_a_check_may_forbid_more_modules():
    check = dataclasses.replace(CHECK, forbidden_modules=("fractions",))
    source = "from fractions import Fraction\ndef f(n): return int(Fraction(2 * n))"
    assert verdict_on(make(source, "f")).passed
    assert "uses fractions.Fraction, where an answer stands already" in (
        verdict_on(make(source, "f"), check).sentence
    )
