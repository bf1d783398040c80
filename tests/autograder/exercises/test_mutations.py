"""Mutations of a model answer are told by names that a student knows."""

from autograder.exercises.model_answers import statement
from autograder.exercises.mutations import mutations

SOURCE = """
def state(num_params: int, num_tensors: int):
    of_adam = 2 * 4 * num_params + 4 * num_tensors
    last_norm, h = num_params + 5, num_params + 6
    return {"after_step": of_adam + last_norm + h + 9}
"""


def parts(text=""):
    return {each.part for each in mutations(SOURCE, text)}


def test_a_part_has_the_name_of_its_key_and_no_name_of_the_model_answer():
    assert parts() == {"“after step”", "one step"}


def test_a_name_whose_words_stand_in_the_text_is_known():
    assert parts("The last-norm keeps h numbers; Adam more.") == {
        "“after step”",
        "“last norm”",
        "one step",
    }


def test_a_return_without_keys_is_the_last_step():
    (part,) = {each.part for each in mutations("def f(n: int):\n    return 2 * n")}
    assert part == "the last step"


def test_the_text_of_an_exercise_is_that_of_its_card():
    text = statement("u03-sequence-bytes")
    assert "the last norm 24" in text
    assert "BEGIN SOLUTION" not in text
    assert "points=2" not in text
