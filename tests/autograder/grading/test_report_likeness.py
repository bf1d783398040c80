"""Copies are flagged however they are disguised; answers that must be alike are not."""

import dataclasses

import pytest

from autograder.grading.report.course_texts import PACKAGE, SOLUTION, course_texts_of
from autograder.grading.report.likeness import find_alike, is_too_short
from tests.answer_bank.every import ANSWER_BANKS
from tests.autograder.grading.classes import clean, disguised
from tests.notebooks.filling import ROOT, UNITS, released

COURSE_TEXTS = {course.exercise: course for unit in UNITS for course in course_texts_of(ROOT, unit)}
COURSE_ANSWERS = {SOLUTION, PACKAGE}
LONG = [
    "u01-latent-attention-flops",
    "u01-budget-ratio",
    "u03-parameters",
    "u03-llama-layer-bytes",
    "u04-allocator",
    "u05-checkpoint",
    "u05-recomputed-flops",
    "u07-value",
    "u08-accumulate",
    "u09-ring",
]
SHORT = ["u00-state-gib", "u01-gated-mlp-flops", "u00-step-seconds"]
IN_WORDS = "u01-first-layer"


def a_class(exercise):
    """All answers of a bank, each by a student of its own."""
    bank = ANSWER_BANKS[exercise]
    wrong = {f"wrong{n}": clean(each.source) for n, each in enumerate(bank.wrong)}
    return wrong | {f"right{n}": clean(each) for n, each in enumerate(bank.right)}


def cells_of(unit):
    return released(unit).cells


def names(exercise, answers):
    return [set(each.names) for each in find_alike(COURSE_TEXTS[exercise], answers)]


def together(groups, *wanted):
    return any(set(wanted) <= group for group in groups)


@pytest.mark.parametrize("exercise", ANSWER_BANKS)
def test_right_answers_of_another_style_are_not_flagged_with_the_course(exercise):
    for group in names(exercise, a_class(exercise)):
        assert not (group & COURSE_ANSWERS and any(name.startswith("right") for name in group))


@pytest.mark.parametrize("exercise", LONG)
def test_disguised_copy_is_flagged_with_its_original(exercise):
    solution = COURSE_TEXTS[exercise].answers[SOLUTION]
    answers = a_class(exercise) | {"copy": disguised(solution)}
    assert "my_0" in answers["copy"]
    assert "#" not in answers["copy"]
    assert together(names(exercise, answers), "copy", SOLUTION)


def test_one_students_answer_under_anothers_name_is_flagged():
    exercise = "u08-train"
    answers = a_class(exercise)
    answers |= {"copy": disguised(answers["right1"])}
    assert together(names(exercise, answers), "copy", "right1")


def test_copy_that_python_does_not_read_is_flagged():
    exercise = "u05-recomputed-flops"
    broken = COURSE_TEXTS[exercise].answers[SOLUTION].replace("return", "retrun (", 1)
    answers = a_class(exercise) | {"copy": broken}
    assert together(names(exercise, answers), "copy", SOLUTION)


@pytest.mark.parametrize("exercise", SHORT)
def test_formula_of_one_line_is_never_flagged_and_it_is_said(exercise):
    copy = disguised(COURSE_TEXTS[exercise].answers[SOLUTION])
    answers = a_class(exercise) | {"copy": copy}
    assert not together(names(exercise, answers), "copy", SOLUTION)
    assert is_too_short(COURSE_TEXTS[exercise], len(answers))


def test_a_larger_class_tells_more():
    """What two of three hundred have in common is rarer than what two of five have."""
    course = COURSE_TEXTS["u01-attention-flops"]
    assert is_too_short(course, 5)
    assert not is_too_short(course, 300)


def test_what_the_whole_class_writes_is_no_sign():
    exercise = "u05-recomputed-flops"
    same = disguised(COURSE_TEXTS[exercise].answers[SOLUTION])
    assert names(exercise, {f"s{n}": same for n in range(30)}) == []


@pytest.mark.parametrize("exercise", LONG)
@pytest.mark.parametrize("num_students", [20, 100])
def test_the_courses_own_code_is_flagged_whoever_else_handed_it_in(exercise, num_students):
    solution = COURSE_TEXTS[exercise].answers[SOLUTION]
    remarked = "# mine\n\n" + solution.replace("\n    ", "\n    # said otherwise\n    ", 1)
    class_ = {f"s{n}": remarked if n % 2 else solution for n in range(num_students)}
    for answers in (class_, class_ | a_class(exercise)):
        found = [each for each in find_alike(COURSE_TEXTS[exercise], answers) if each.copies]
        (group,) = found
        assert {*class_, SOLUTION} <= {*group.names}
        assert group.copies == tuple(class_)
        assert group.reason.startswith("Word for word the course's own, but for comments and ")


@pytest.mark.parametrize("num_students", [3, 30, 300])
def test_one_or_two_statements_may_be_the_courses_by_chance(num_students):
    for exercise in [*SHORT, "u00-four-memories", "u02-roofline-seconds", "u07-stops"]:
        solution = COURSE_TEXTS[exercise].answers[SOLUTION]
        everybody = {f"s{n}": clean(solution) for n in range(num_students)}
        assert not any(each.copies for each in find_alike(COURSE_TEXTS[exercise], everybody))


def test_another_program_is_no_copy_word_for_word():
    course = COURSE_TEXTS["u05-recomputed-flops"]
    solution = course.answers[SOLUTION]
    assert course.original_of(solution) == SOLUTION
    for other in (disguised(solution), solution.replace("return", "return 2 *"), "", "def f(:"):
        assert course.original_of(other) == ""


def test_given_code_is_no_sign():
    exercise = "u04-repair-training"  # given cells hold the code to repair
    stub = next(cell.source for cell in cells_of("04_memory_profiling") if cell.id == exercise)
    assert not COURSE_TEXTS[exercise].own(stub).ngrams
    assert names(exercise, {"one": stub, "other": stub, "blank": ""}) == []


def test_comment_word_for_word_is_the_first_reason():
    exercise = SHORT[1]
    comment = "# the third matrix is the one I forgot on Tuesday"
    mine = f"def gated_mlp_flops(n, h, f):\n    {comment}\n    return 6 * n * h * f"
    theirs = f"def gated_mlp_flops(a, b, c):\n    {comment.upper()}\n    return 3 * 2 * a * b * c"
    found = find_alike(COURSE_TEXTS[exercise], a_class(exercise) | {"one": mine, "other": theirs})
    assert set(found[0].names) == {"one", "other"}
    assert found[0].reason.startswith("The same comment, word for word: “the third matrix is")


def test_comment_that_only_the_course_has_twice_is_no_reason():
    exercise = "u05-recomputed-flops"
    said = "# nobody but the course says it in these words\n"
    course = COURSE_TEXTS[exercise]
    talking = {name: said + text for name, text in course.answers.items()}
    copy = disguised(course.answers[SOLUTION])
    (found,) = find_alike(dataclasses.replace(course, answers=talking), {"copy": copy})
    assert "copy" in found.names
    assert found.sentence == ""


def test_what_the_notebook_says_may_be_quoted():
    exercise = SHORT[1]
    told = next(
        line
        for cell in cells_of("01_transformer_flops")
        for line in cell.source.splitlines()
        if cell.cell_type == "markdown" and len(line.split()) > 8
    )
    quoting = "def gated_mlp_flops(n, h, f):\n    # {}\n    return {} * n * h * f"
    answers = {"one": quoting.format(told, 6), "other": quoting.format(told, 4)}
    assert names(exercise, a_class(exercise) | answers) == []


def test_answer_in_words_is_flagged_where_it_is_copied():
    own = (
        "Nobody asks for the gradient of the data, so of the three products of a layer only two "
        "remain in the first one: forward, and the one for its weights. That is why training the "
        "first layer costs twice its inference and not three times."
    )
    other = (
        "The input is not trained. Its gradient would go nowhere and autograd leaves that product "
        "out. We count a forward product and a single backward product, which makes a factor two."
    )
    third = "I think it is the gradient of x because x has requires_grad False, hence 2 and not 3."
    answers = {"own": own, "other": other, "third": third, "copy": f"In short: {own[:180]} QED"}
    assert names(IN_WORDS, answers) == [{"own", "copy"}]


def test_answer_without_end_is_read_to_a_limit():
    endless = "value = value + 1 - other * third\n" * 1_000_000
    assert len(COURSE_TEXTS["u05-recomputed-flops"].own(endless).ngrams) < 50
