"""What a check says of right and wrong answers, and of answers that misbehave."""

import dataclasses
import math
import re

import pytest

from autograder.checking import bounded_call
from autograder.checking.exercise_check import Check
from autograder.checking.fact import Fact
from autograder.checking.judges import ImplementationJudge, ValueJudge
from autograder.checking.lookup import check_of
from autograder.checking.mistakes import Symptom
from autograder.checking.scoring import score_answer
from autograder.checking.verdict_figure import FONT_SIZE, LABEL, comparison
from tests.answer_bank import make


def double(n):
    return 2 * n


CHECK = Check(
    cases=lambda seed: [{"n": n} for n in range(3, 30)],
    judge=ValueJudge(double, Symptom("You triple it. How often is n taken?", lambda n: 3 * n)),
)
PARTS = Check(
    cases=lambda seed: [{"n": n} for n in range(3, 30)],
    judge=ValueJudge(lambda n: {"double": 2 * n, "square": n * n}),
)


def verdict_on(answer, check=CHECK, limit_seconds=5.0):
    return score_answer(check, answer, [1], limit_seconds).verdict("exercise", 2.0, tell_all=True)


TROUBLES = {
    "a tensor": (
        "import torch\ndef f(n): return torch.tensor(2 * n)",
        "Expected an int; it returned an int64 tensor of shape ()",
    ),
    "None": ("def f(n): pass", "It returned None."),
    "a print": ("def f(n): print(2 * n)", "It returned None."),
    "a string": ("def f(n): return str(2 * n)", "Expected an int; it returned a str"),
    "a bool": ("def f(n): return True", "Expected an int; it returned a bool"),
    "a set": ("def f(n): return {2 * n}", "It returned a set."),
    "a class": ("class f(int): pass", "It returned a f."),
    "raises": ("def f(n): return n / 0", "raised ZeroDivisionError in the line `"),
    "too few arguments": ("def f(): return 6", "takes 0 positional arguments but 1 was given"),
    "huge": ("def f(n): return -(10**400)", "a number too large to print"),
    "a name that is not there": ("def f(n): return 2 * m", "name 'm' is not defined"),
    "too large to print": ("def f(n): return 10**200", "a number too large to print"),
    "infinite": ("def f(n): return float('inf')", "got inf"),
    "not a number": ("def f(n): return float('nan')", "got nan"),
    "no function": ("f = 5", "Your answer is an int, not a function."),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_in_one_sentence_with_a_question(name):
    source, words = TROUBLES[name]
    verdict = verdict_on(make(source, "f"))
    assert words in verdict.sentence
    assert verdict.sizes in ("n=3", "")
    assert verdict.hint.endswith("?")
    assert verdict.points == 0


LONG = {
    "a class name": "def f(n): return type('of (1) ' * 20_000, (), {})()",
    "the name of an error": "def f(n): raise type('of (1) a ' * 40_000, (Exception,), {})",
    "a message": "def f(n): raise ValueError('calls a of a and rank 1 a ' * 20_000)",
    "a key": "def f(n): return {'k' * 500_000: 1}",
}


@pytest.mark.parametrize("kind", LONG)
def test_a_verdict_stays_short_whatever_a_student_names(kind):
    verdict = verdict_on(make(LONG[kind], "f"), PARTS)
    assert verdict.points == 0
    assert len(str(verdict)) < 1_000


SPOILING = {
    "a list": (
        {"sizes": [1, 2]},
        "def f(sizes):\n    total = sum(sizes)\n    sizes.clear()\n    return total",
    ),
    "a model": (
        {
            "model": {
                "num_layers": 3,
                "hidden_size": 4,
                "num_heads": 1,
                "ffn_size": 2,
                "vocab_size": 5,
            }
        },
        "def f(model):\n    object.__setattr__(model, 'num_layers', 1)\n    return 3",
    ),
}


@pytest.mark.parametrize("kind", SPOILING)
def test_an_answer_that_spoils_its_argument_earns_nothing(kind):
    case, source = SPOILING[kind]
    check = Check(cases=lambda seed: [case], judge=ValueJudge(lambda **_: 3))
    verdict = verdict_on(make(source, "f"), check)
    assert verdict.points == 0
    assert f"changes its argument `{next(iter(case))}`" in verdict.sentence
    assert verdict.hint.endswith("?")


def test_never_returning_is_stopped():
    def answer(n):
        while True:
            pass

    assert "Stopped after 0.2 seconds" in verdict_on(answer, limit_seconds=0.2).sentence


def test_division_that_loses_digits_is_asked_about():
    verdict = verdict_on(lambda n: 2 * n + 1e-9)
    assert "Expected 6, got 6.000000001" in verdict.sentence
    assert "a division with / gives a float" in verdict.hint


def test_numpy_number_earns_the_points():
    assert verdict_on(make("import numpy\ndef f(n): return numpy.int64(2 * n)", "f")).passed


def test_whole_float_earns_the_points_and_a_remark():
    verdict = verdict_on(lambda n: 2.0 * n)
    assert verdict.passed
    assert "You returned a float; a count is a whole number" in verdict.sentence


HINTS = {
    "a known mistake": (lambda n: 3 * n, "You triple it. How often is n taken?"),
    "the first failure of a known one": (lambda n: 9 if n == 3 else 2 * n + n % 5 + 1, "by hand"),
    "an unknown mistake": (lambda n: 7 * n + 1, "by hand"),
    "a print": (lambda n: print(2 * n), "It prints something. Does it also return it?"),
    "half": (lambda n: n, "Exactly half in every case."),
    "double": (lambda n: 4 * n, "Exactly double in every case."),
    "bits": (lambda n: 16 * n, "Do you count bits instead of bytes?"),
    "KiB": (lambda n: 2048 * n, "Which step between KiB, MiB and GiB is missing?"),
    "a factor": (
        lambda n: 10 * n,
        "Always 5 times the right answer. Where does that constant factor come from?",
    ),
    "a tiny factor": (lambda n: 2e-10 * n, "Always 1e-10 times"),
    "a tiny factor that changes": (lambda n: 2e-10 * n * n, "by hand"),
    "a constant": (lambda n: 42, "Which of them should it depend on?"),
    "a caret": (make("def f(n): return n / 2 ^ 3", "f"), "how do you write a power?"),
}


@pytest.mark.parametrize(("answer", "words"), HINTS.values(), ids=HINTS)
def test_what_is_asked_about(answer, words):
    assert words in verdict_on(answer).hint


def test_a_rounding_is_no_constant_factor():
    check = dataclasses.replace(CHECK, judge=ValueJudge(lambda n: n / 3, relative_tolerance=1e-9))
    assert verdict_on(lambda n: n / 3 * (1 + 1e-8), check).hint.startswith("Almost:")


def test_large_counts_are_compared_exactly():
    check = Check(cases=lambda seed: [{"n": 2**60}], judge=ValueJudge(double))
    assert verdict_on(lambda n: 2 * n, check).passed
    assert not verdict_on(lambda n: 2 * n + 1, check).passed
    assert not verdict_on(lambda n: 2 * n - 64, check).passed


def bits_hint(answer, sizes):
    check = Check(
        cases=lambda seed: [{"n": n} for n in sizes], judge=ValueJudge(lambda n: 3 * n * (n + 1))
    )
    return verdict_on(answer, check).hint


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    "kept",
    [
        lambda n, size: (3 * n * (n + 1) + size // 2) % size - size // 2,
        lambda n, size: 3 * n * (n + 1) % size,
        lambda n, size: n * (n + 1) % size * 3,
    ],
)
def test_bits_that_are_lost_are_asked_about(bits, kept):
    sizes = (5, 1001, 70_001, 80_003, 2**34 + 7, 2**37 + 9)
    hint = bits_hint(lambda n: kept(n, 2**bits), sizes)
    assert f"off by a multiple of 2^{bits}," in hint
    assert "In how many bits is it kept" in hint


@pytest.mark.parametrize("factor", [2, 3, 1 / 3])
def test_multiples_of_a_large_power_are_no_lost_bits(factor):
    sizes = [2**40, 2**42, 3 * 2**41]
    assert "bits" not in bits_hint(lambda n: int(3 * factor * n * (n + 1) + 2**33), sizes)
    assert "bits" not in bits_hint(lambda n: int(3 * factor * n * n), sizes)


def test_the_line_shown_for_an_error_is_the_students():
    source = "import torch\ndef f(n):\n    return torch.empty(n, device='meta').sum().item()"
    assert (
        "`return torch.empty(n, device='meta').sum().item()`"
        in verdict_on(make(source, "f")).sentence
    )


def test_hint_that_fits_only_some_failures_yields_to_one_that_fits_all():
    check = Check(
        cases=lambda seed: [{"n": n} for n in (3, 5, 8)],
        judge=ValueJudge(
            double,
            Symptom("Fits three only?", lambda n: 9),
            Symptom("Fits all?", lambda n: n * n),
        ),
    )
    assert verdict_on(lambda n: n * n, check).hint == "Fits all?"


def test_what_should_not_be_is_said_in_words():
    judge = ImplementationJudge(
        lambda n: {"wrong": 0, "size": n},
        facts=lambda case, observed, right: [
            Fact("wrong", observed["wrong"], "The weights are wrong."),
            Fact("size", observed["size"], "the size"),
        ],
    )
    verdicts = [judge({"n": 3}, got) for got in ({"wrong": 1, "size": 3}, {"wrong": 0, "size": 4})]
    assert [each.sentence for each in verdicts] == [
        "The weights are wrong.",
        "Expected 3 for the size, got 4 (ratio 1.333).",
    ]


def test_each_part_right_everywhere_earns_its_share():
    verdict = verdict_on(lambda n: {"double": 2 * n, "square": n + 6}, PARTS)
    assert verdict.points == 1.0
    assert verdict.sentence.startswith("Right: double. Expected 16 for square, got 10")
    assert "<b>Right:</b> double." in verdict._repr_html_()


def test_part_right_in_one_case_only_earns_nothing():
    assert verdict_on(lambda n: {"double": 6, "square": 9}, PARTS).points == 0


def test_other_keys_are_ignored_and_missing_ones_named():
    assert verdict_on(lambda n: {"double": 2 * n, "square": n * n, "more": 1}, PARTS).passed
    assert "Expected the keys double, square; got double" in (
        verdict_on(lambda n: {"double": 2 * n}, PARTS).sentence
    )
    assert "Expected a dictionary with double, square; it returned an int" in (
        verdict_on(lambda n: 2 * n, PARTS).sentence
    )


def test_verdict_is_shown_as_text_and_as_escaped_html():
    verdict = verdict_on(make("def f(n): raise ValueError('<b>bold</b>')", "f"))
    assert "<b>bold</b>" in str(verdict)
    box = verdict._repr_html_()
    assert "&lt;b&gt;bold&lt;/b&gt;" in box
    assert "<b>0 of 2 points</b>" in box
    assert re.findall(r'"color: [^>]*>([^<]*)<', box) == ["✗"], "words have the page's colour"


def test_a_near_miss_is_not_blamed_on_a_division():
    verdict = verdict_on(lambda n: 2 * n + (n > 2) * 1)
    assert "division" not in verdict.hint


def test_of_two_mistakes_of_an_implementation_the_first_is_asked_about():
    check = Check(
        cases=lambda seed: [{"n": n} for n in range(8)],
        judge=ImplementationJudge(
            lambda n: {"results": n, "hooks": 0},
            Symptom("Who takes the hooks away?", lambda n: {"results": n, "hooks": 1}),
            Symptom("Which result?", lambda n: {"results": n + 1}),
        ),
    )
    hooks = verdict_on(lambda n: {"results": n + (n > 5), "hooks": int(n in (2, 3))}, check)
    assert hooks.hint == "Who takes the hooks away?"
    neither = verdict_on(lambda n: {"results": n, "hooks": n % 3}, check)
    assert neither.hint.startswith("Work this case")


def test_numbers_of_an_implementation_count_together():
    judge = ValueJudge(lambda n: {"wrong": 0, "saved_bytes": n}, together=True)
    check = Check(cases=CHECK.cases, judge=judge)
    right = verdict_on(lambda n: {"wrong": 0, "saved_bytes": n}, check)
    half = verdict_on(lambda n: {"wrong": 0, "saved_bytes": 2 * n}, check)
    assert (right.points, half.points) == (2, 0)
    assert "Expected 3 for saved_bytes, got 6" in half.sentence
    assert "Passed" not in half.sentence


def observed(answer, case):
    """Observe what an answer keeps, and describe a division by zero, as an `observe` may do."""
    try:
        return {"kept": answer(case["n"])}
    except ZeroDivisionError as error:
        return bounded_call.describe_error(error)


SCENARIOS = Check(
    cases=lambda seed: [{"scenario": name, "n": n} for name in ("low", "high") for n in (2, 4)],
    judge=ImplementationJudge(
        lambda scenario, n: {"kept": n},
        Symptom("Everything is kept. What may go?", lambda scenario, n: {"kept": 9}),
        scenarios=("low", "high"),
    ),
    observe=observed,
)


@pytest.mark.parametrize(
    ("kept", "made", "hint"),
    [
        (lambda scenario, n: n, lambda scenario: 1, "Who makes it?"),
        (lambda scenario, n: n + (scenario == "high"), lambda scenario: 0, "What is high?"),
        (lambda scenario, n: n, lambda scenario: int(scenario == "high"), "What is high?"),
        (
            lambda scenario, n: n + (n == 4),
            lambda scenario: 0,
            "Right in both cases where n is 2, wrong in the others. What changes in the others?",
        ),
    ],
    ids=["a number", "a scenario", "a scenario before a number", "a place"],
)
def test_an_exercise_asks_where_no_mistake_is_known(kept, made, hint):
    judge = ImplementationJudge(
        lambda scenario, n: {"kept": n, "made": 0},
        facts=lambda case, observed, right: [
            Fact("kept", observed["kept"]),
            Fact("made", observed["made"], ask="Who makes it?"),
        ],
        scenarios=("low", "high"),
        questions={"high": "What is high?"},
    )
    check = dataclasses.replace(SCENARIOS, judge=judge, observe=lambda answer, case: answer(**case))
    verdict = verdict_on(
        lambda scenario, n: {"kept": kept(scenario, n), "made": made(scenario)}, check
    )
    assert verdict.hint == hint


def test_what_is_asked_of_the_first_failure_stands_for_failures_of_several_kinds():
    judge = ImplementationJudge(
        lambda scenario, n: {"kept": n}, scenarios=("low", "high"), questions={"low": "How low?"}
    )
    check = dataclasses.replace(SCENARIOS, judge=judge)
    assert verdict_on(lambda n: n + 1, check).hint == "How low?"


def test_a_mistake_that_is_wrong_in_more_right_cases_than_it_explains_is_no_hint():
    judge = ValueJudge(lambda n: n + 100, Symptom("Is it always 9?", lambda n: 9 if n == 5 else 0))
    check = Check(cases=CHECK.cases, judge=judge)
    assert verdict_on(lambda n: 9 if n == 5 else n + 100, check).hint != "Is it always 9?"
    assert verdict_on(lambda n: 9 if n == 5 else 0, check).hint == "Is it always 9?"


def test_nan_is_right_where_it_is_wanted_and_is_recognised_as_a_mistake():
    judge = ValueJudge(lambda x: x, Symptom("Why NaN?", lambda x: math.nan), together=True)
    assert judge({"x": math.nan}, math.nan).passed
    wrong = judge({"x": math.inf}, math.nan)
    assert tuple(wrong.hints) == ("Why NaN?",)
    assert wrong.sentence == "Expected inf, got nan."
    assert not judge({"x": math.nan}, math.inf).passed
    assert not judge({"x": math.inf}, -math.inf).passed


def test_each_scenario_earns_its_share():
    cases = iter([2, 4, 9, 9])
    verdict = verdict_on(lambda n: next(cases), SCENARIOS)
    assert verdict.points == 1.0
    assert verdict.hint == "Everything is kept. What may go?"
    assert "Expected 2 for kept, got 9" in verdict.sentence


def test_an_error_costs_only_its_scenario():
    cases = iter([2, 4, 0, 0])
    verdict = verdict_on(lambda n: n // bool(next(cases)), SCENARIOS)
    assert verdict.points == 1.0
    assert "It raised ZeroDivisionError" in verdict.sentence
    assert verdict.hint.endswith("?")


def test_a_number_rounded_to_float32_gets_a_hint_on_rounding():
    judge = ImplementationJudge(lambda x: {"weight": x}, relative_tolerance=1e-12)
    assert next(iter(judge({"x": 0.3}, {"weight": 0.3 + 1e-8}).hints)).startswith("Almost:")
    assert not tuple(judge({"x": 0.3}, {"weight": 0.3 + 1e-3}).hints)


def test_of_two_scenarios_that_fail_in_two_ways_the_first_gives_the_hint():
    cases = iter([9, 9, 0, 0])
    verdict = verdict_on(lambda n: next(cases) * n // n, SCENARIOS)
    assert verdict.points == 0
    assert verdict.hint == "Everything is kept. What may go?"


def test_without_scenarios_an_error_is_wrong_in_its_case():
    judge = ImplementationJudge(lambda n: {"kept": n})
    check = Check(cases=CHECK.cases, judge=judge, observe=observed)
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
        ("(2 * x.requires_grad_()).backward()", "Which gradient does backward receive"),
        ("(x > 0).requires_grad_()", "Which of the tensors required a gradient"),
    ],
)
def test_errors_of_autograd_have_hints_of_their_own(source, words):
    answer = make(f"import torch\ndef f(n):\n    x = torch.ones(2)\n    {source}", "f")
    assert words in verdict_on(answer).hint


def test_numbers_that_look_alike_are_both_shown_in_full():
    check = dataclasses.replace(
        CHECK, judge=ValueJudge(lambda n: 133252.56306, relative_tolerance=0)
    )
    verdict = verdict_on(lambda n: 133252.563061, check)
    assert "Expected 133,252.56306, got 133,252.563061" in verdict.sentence


def test_the_courses_own_answer_is_called_lent():
    check = check_of("u01-matmul-flops")
    sentence = verdict_on(check.reference(), check).sentence
    assert "matmul_flops, the course's own: `answer` lends it" in sentence


def test_a_check_may_forbid_more_modules():
    check = dataclasses.replace(CHECK, forbidden_modules=("fractions",))
    source = "from fractions import Fraction\ndef f(n): return int(Fraction(2 * n))"
    assert verdict_on(make(source, "f")).passed
    assert "uses fractions.Fraction, which already contains an answer" in (
        verdict_on(make(source, "f"), check).sentence
    )


def test_a_failed_formula_shows_its_two_smallest_cases_and_a_picture():
    verdict = score_answer(CHECK, lambda n: n + 3, [1]).verdict(
        "u00-tensor-bytes", 2.0, tell_all=True
    )
    assert "And for `n=5`: expected 10, got 8." in str(verdict)
    assert verdict.figure.count("<circle") == verdict.figure.count("<path") == 27
    assert "Your numbers (crosses)" in verdict._repr_html_()
    graded = score_answer(CHECK, lambda n: n + 3, [1]).verdict(
        "u00-tensor-bytes", 2.0, tell_all=False
    )
    assert not graded.figure
    assert not graded.another


def test_labels_of_the_picture_are_not_cut_off():
    """A digit is a little more than half as wide as the font is high."""
    labels = re.findall(r">(×[^<]+)<", comparison([(1, 0.000244), (1, 0.0000317), (1, 271828)]))
    assert sorted(map(len, labels)) == [2, 9, 9]
    assert max(map(len, labels)) * 0.64 * FONT_SIZE < LABEL - 6


def test_there_is_no_picture_without_numbers():
    check = dataclasses.replace(CHECK, cases=lambda seed: [{"n": n} for n in (3, 4, 5)])
    for answer in (lambda n: "words" if n > 3 else 7, lambda n: math.nan, lambda n: -n):
        verdict = score_answer(check, answer, [1]).verdict("u00-tensor-bytes", 2.0, tell_all=True)
        assert verdict.points == 0
        assert not verdict.figure
