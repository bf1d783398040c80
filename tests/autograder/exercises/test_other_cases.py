"""A change of all cases is told only if it explains every number of an answer."""

import dataclasses

import pytest

from autograder.checking.difference.case_sizes import sizes_of, table_of
from autograder.checking.judges import ValueJudge
from autograder.exercises.other_cases import as_ifs, variations

SIZES = {"num_layers": 2, "hidden_size": 24, "num_heads": 6, "ffn_size": 5, "vocab_size": 7}
CASES = [
    {"rows": rows, "columns": columns, "element_bytes": width, "is_tied": tied, "kind": kind}
    for rows, columns, width, tied, kind in (
        (1, 3, 2, True, "sum"),
        (2, 9, 4, False, "mean"),
        (5, 5, 2, False, "sum"),
        (7, 2, 4, True, "mean"),
        (11, 6, 2, True, "sum"),
        (3, 13, 4, False, "sum"),
        (8, 4, 4, True, "mean"),
        (6, 15, 4, True, "mean"),
        (13, 2, 2, True, "mean"),
    )
]
MODELS = [
    {"model": SIZES | {"num_kv_heads": kv, "ffn_size": f}, "seq_len": s}
    for kv, f, s in ((6, 5, 3), (3, 11, 2), (2, 20, 8), (1, 9, 4), (2, 6, 5), (3, 17, 6))
]


def right(case):
    whole = 3 * case["rows"] * case["columns"] * case["element_bytes"] + case["columns"]
    whole += 100 * case["is_tied"]
    return whole if case["kind"] == "sum" else whole + 1000


def for_model(case):
    sizes = sizes_of(case)
    keys = sizes["num_kv_heads"] * sizes["head_dim"]
    return case["seq_len"] * (2 * sizes["hidden_size"] * keys + sizes["ffn_size"])


def told_of(cases, answer):
    """All that is recorded of an answer, and the judge of it."""

    def plain(value):
        if not dataclasses.is_dataclass(value):
            return value
        return {name: each for name, each in dataclasses.asdict(value).items() if each is not None}

    def model(*values):
        return answer(dict(zip(cases[0], map(plain, values), strict=True)))

    judge = ValueJudge(lambda **case: answer(case))
    return as_ifs(model, cases, judge.wrong_numbers), judge


def explanation(formula, cases=CASES, answer=right):
    mistakes, judge = told_of(cases, answer)
    wrong = [judge.wrong_numbers(case, formula(case)) for case in cases]
    hits = (
        m for m in mistakes if [m.numbers(case, judge.wrong_numbers) for case in cases] == wrong
    )
    return next((each.hint for each in hits), None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"element_bytes": 2}, "if element_bytes were always 2. Where should element_bytes"),
        ({"rows": 1}, "if rows were always 1. Where should rows come in?"),
        ({"is_tied": False}, "if is_tied were always False."),
        ({"kind": "sum"}, "if kind were always 'sum'."),
        ({"rows": 1, "columns": 1}, "if rows and columns were both 1."),
    ],
)
def test_one_value_is_taken_for_the_only_one(change, words):
    assert words in explanation(lambda case: right(case | change))


def test_an_answer_that_keeps_what_it_found_gives_the_case_before():
    before = dict(zip(map(str, CASES[1:]), CASES, strict=False))
    assert "the case before" in explanation(lambda case: right(before.get(str(case), case)))


def test_a_size_is_taken_for_another():
    said = explanation(lambda case: right(case | {"rows": case["columns"]}))
    assert said == (
        "Your numbers would be right if rows were as large as columns. "
        "Where is rows meant, and where columns?"
    )


def test_two_sizes_are_swapped():
    said = explanation(lambda c: right(c | {"rows": c["columns"], "columns": c["rows"]}))
    assert said.startswith("Your numbers would be right if rows and columns changed places.")


def test_one_case_that_differs_is_enough_to_be_silent():
    assert explanation(lambda case: right(case | {"rows": 1}) + (case["columns"] == 13)) is None


def test_few_wrong_cases_tell_nothing():
    cases = [*CASES[:3], *({**case, "rows": 1} for case in CASES[3:])]
    mistakes, _ = told_of(cases, right)
    assert not any("rows were always 1." in each.hint for each in mistakes)


def test_sizes_within_a_model_change_and_the_others_stay():
    by_words = {each.sentence: each for each in variations(MODELS)}
    (wide,) = (v for s, v in by_words.items() if "ffn_size were as large as seq_len" in s)
    changed = wide.changed(MODELS[0])["model"]
    assert changed["ffn_size"] == 3
    assert changed["head_dim"] == 4
    assert {name: changed[name] for name in SIZES if name != "ffn_size"} == {
        name: size for name, size in SIZES.items() if name != "ffn_size"
    }
    assert MODELS[0]["model"]["ffn_size"] == 5


def test_a_case_that_cannot_be_made_is_none():
    (wide,) = (v for v in variations(MODELS[1:3]) if "ffn_size were always 1." in v.sentence)
    assert wide.changed(MODELS[0])["model"]["ffn_size"] == 1
    assert not any(
        "num_kv_heads were as large as ffn_size" in v.sentence for v in variations(MODELS)
    )


def test_zero_is_offered_only_where_it_occurs():
    cases = [{"cached": cached, "rows": rows} for cached, rows in ((0, 3), (4, 7), (9, 2))]
    sentences = " ".join(each.sentence for each in variations(cases))
    assert "cached were always 0." in sentences
    assert "rows were always 0." not in sentences


@pytest.mark.parametrize(("first", "is_offered"), [(3, True), (0, False)])
def test_a_zero_that_stands_for_a_default_makes_no_case(first, is_offered):
    models = [
        {"model": SIZES | {"num_kv_heads": kv, "num_positions": positions}}
        for kv, positions in ((1, first), (2, 6), (3, 2))
    ]
    words = "num_kv_heads were as large as num_positions"
    assert any(words in each.sentence for each in variations(models)) == is_offered


def test_a_size_of_a_model_is_forgotten():
    said = explanation(
        lambda case: for_model({**case, "model": case["model"] | {"num_kv_heads": 1}}),
        MODELS,
        for_model,
    )
    assert "if num_kv_heads were always 1." in said


def test_a_change_that_the_answer_cannot_follow_is_left_out():
    def fragile(case):
        return right(case) + 1 // (case["element_bytes"] - 1)

    sentences = [each.hint for each in told_of(CASES, fragile)[0]]
    assert not any("element_bytes were always 1" in sentence for sentence in sentences)
    assert any("element_bytes were always 2" in sentence for sentence in sentences)


def test_every_sentence_ends_in_one_question():
    for each in variations(CASES) + variations(MODELS):
        assert each.sentence.endswith("?")
        assert each.sentence.count("?") == 1


def test_a_table_has_what_all_cases_have():
    table = table_of([{"widths": [3, 5], "n": 1}, {"widths": [2, 2, 2], "n": 4, "more": 1}])
    assert table == {
        "the length of widths": [2, 3],
        "the sum of widths": [8, 6],
        "the product of widths": [15, 8],
        "n": [1, 4],
    }


def test_a_name_that_is_taken_comes_with_its_dictionary():
    sizes = sizes_of({"rows": 1, "other": {"rows": 2, "columns": 3}})
    assert sizes == {"rows": 1, "other.rows": 2, "columns": 3}
