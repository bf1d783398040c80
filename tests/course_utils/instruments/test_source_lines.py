"""Lines of a function that use a name: where they stand, and in which function."""

from contextlib import contextmanager

from course_utils.instruments.source_lines import line_that_uses


class Sent:
    def finish(self, handle):
        handle.wait()


@contextmanager
def helper():
    yield print("here")


def trainer(limit, model, handle):
    """Call all_reduce in words alone."""
    with helper():
        sizes = [size for size in range(9)]  # limit < 3
    if (
        sum(sizes)
        >= limit
    ):  # fmt: skip
        (
            model.layers[0]
            .backward()
        )  # fmt: skip
    model.grad = None
    del sizes
    Sent().finish(handle)


def test_each_kind_of_use_is_found_in_its_line():
    first = trainer.__code__.co_firstlineno
    for name, line, text in (
        ("helper", 2, "with helper():"),
        ("limit", 5, "sum(sizes)"),
        ("backward", 10, ".backward()"),
        ("grad", 12, "model.grad = None"),
        ("del", 13, "del sizes"),
    ):
        found = line_that_uses(trainer, name)
        assert (found.function, found.line, found.text) == ("trainer", first + line, text)


def test_what_stands_beside_it_is_searched_next():
    found = line_that_uses(trainer, "wait")
    assert (found.function, found.text) == ("Sent", "handle.wait()")
    assert line_that_uses(trainer, "print").function == "helper"
    assert line_that_uses(trainer, "finish", "print").function == "trainer"


def test_words_and_what_has_no_source_have_no_line():
    assert line_that_uses(trainer, "all_reduce") is None
    namespace = {}
    exec("def unseen():\n    print()", namespace)
    assert line_that_uses(namespace["unseen"], "print") is None
