"""An answer that uses the course's own code is found, however it gets there."""

import functools

import pytest

from autograder.checking.uses_reference import ANSWERS, TOKEN_LOSS, find_borrowed
from course_utils.formulas import flops
from tests.answer_bank import make

BORROWED = {
    "imports inside": """
        def f(n):
            from course_utils.formulas.flops import matmul_flops
            return matmul_flops(n, n, n)
    """,
    "imports a module inside": """
        def f(n):
            import course_utils.formulas.flops as other
            return other.matmul_flops(n, n, n)
    """,
    "uses a name of the notebook": """
        from course_utils.formulas.flops import matmul_flops as innocent

        def f(n):
            return innocent(n, n, n)
    """,
    "uses a module of the notebook": """
        from course_utils import formulas as arithmetic
        from course_utils.formulas import flops

        def f(n):
            return flops.matmul_flops(n, n, n)
    """,
    "goes down from the package": """
        import course_utils.formulas.flops

        def f(n):
            return course_utils.formulas.flops.matmul_flops(n, n, n)
    """,
    "hides behind a helper": """
        from course_utils.formulas.flops import matmul_flops

        def helper(n):
            return matmul_flops(n, n, n)

        def f(n):
            return helper(n)
    """,
    "hides in a class": """
        from course_utils.formulas.flops import matmul_flops

        class Helper:
            @staticmethod
            def work(n):
                return matmul_flops(n, n, n)

        def f(n):
            return Helper.work(n)
    """,
    "imports by name": """
        import importlib

        def f(n):
            return importlib.import_module("course_utils.formulas.flops").matmul_flops(n, n, n)
    """,
    "closes over it": """
        from course_utils.formulas.flops import matmul_flops

        def outer(inner_function):
            def f(n):
                return inner_function(n, n, n)
            return f

        f = outer(matmul_flops)
    """,
    "is a lambda": """
        from course_utils.formulas.flops import matmul_flops

        f = lambda n: matmul_flops(n, n, n)
    """,
    "is an object that can be called": """
        from course_utils.formulas.flops import matmul_flops

        class Answer:
            def __call__(self, n):
                return matmul_flops(n, n, n)

        f = Answer()
    """,
    "uses torch's counter": """
        def f(n):
            from torch.utils.flop_counter import FlopCounterMode
            return FlopCounterMode(display=False)
    """,
    "uses an instrument": """
        from course_utils import instruments

        def f(n):
            return instruments.count_flops(lambda: n)
    """,
}

HONEST = {
    "arithmetic": "def f(n):\n    return 2 * n**3",
    "names the course in a docstring": '''
        def f(n):
            """Like course_utils.formulas.flops, but mine."""
            return 2 * n**3
    ''',
    "annotates a comm": """
        from course_utils.distributed import Comm

        def f(comm: Comm, n):
            return n // comm.size
    """,
    "calls itself": "def f(n):\n    return 1 if n < 2 else n * f(n - 1)",
    "has helpers and torch": """
        import torch

        def helper(n):
            return torch.tensor(n).item()

        def f(n):
            return helper(n)
    """,
    "is a lambda inside a call of the course": """
        from autograder import check

        def keep(name, function):
            return function

        f = (keep("x", lambda n: 2 * n**3), check)[0]
    """,
    "has functions inside named like a notebook's that borrow": """
        from course_utils.formulas.flops import matmul_flops

        def counted(n):
            return matmul_flops(n, n, n)

        def f(n):
            def counted(n):
                return 2 * n**3

            return counted(n)
    """,
    "has variables named like the course's": """
        from autograder import answer, check, compare

        def f(n, check=2):
            answer = check * n
            for compare in range(1):
                answer *= n
            return answer * n
    """,
    "compares beside it": """
        from course_utils.formulas.flops import matmul_flops

        def f(n):
            return 2 * n**3

        difference = f(2) - matmul_flops(2, 2, 2)["forward_flops"]
    """,
}


CLASSES = {
    "builds on": """
        from course_utils.reference.allocator import CachingAllocator

        class f(CachingAllocator):
            pass
    """,
    "uses in a method": """
        class f:
            def __init__(self, reserve):
                from course_utils.reference.allocator import CachingAllocator
                self.inner = CachingAllocator()
    """,
}
HONEST_CLASS = """
    from dataclasses import dataclass

    @dataclass
    class Block:
        size: int

    class f(dict):
        def allocate(self, size):
            return Block(size)
"""


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_that_borrows(name):
    assert find_borrowed(make(CLASSES[name], "f")).startswith("course_utils.reference.allocator")


def test_an_honest_class():
    assert find_borrowed(make(HONEST_CLASS, "f")) is None


@pytest.mark.parametrize("name", BORROWED)
def test_borrowed(name):
    assert find_borrowed(make(BORROWED[name], "f")).startswith(ANSWERS)


def test_a_check_may_name_more_modules():
    answer = make("from torch.utils.checkpoint import checkpoint as f", "f")
    assert find_borrowed(answer) is None
    name = find_borrowed(answer, ("torch.utils.checkpoint",))
    assert name == "torch.utils.checkpoint.checkpoint"


USING_TOKEN_LOSS = (
    "from course_utils.reference import token_loss\n\ndef f(x, y):\n    return token_loss(x, y)",
    "def f(x, y):\n    from course_utils.reference import token_loss\n    return token_loss(x, y)",
)


@pytest.mark.parametrize("source", USING_TOKEN_LOSS)
def test_a_check_may_allow_names(source):
    answer = make(source, "f")
    assert find_borrowed(answer) is not None
    assert find_borrowed(answer, allowed_names=TOKEN_LOSS) is None


@pytest.mark.parametrize("name", HONEST)
def test_honest(name):
    assert find_borrowed(make(HONEST[name], "f")) is None


def test_the_courses_function_itself():
    assert find_borrowed(flops.matmul_flops) == "course_utils.formulas.flops.matmul_flops"
    assert find_borrowed(functools.partial(flops.matmul_flops, 1)) is not None


@pytest.mark.parametrize("thing", [None, 3, print, int, "text"])
def test_other_things_are_not_borrowed(thing):
    assert find_borrowed(thing) is None


def test_without_source_the_names_are_enough():
    namespace = {"__name__": "__main__", "flops": flops}
    exec("def f(n):\n    return flops.matmul_flops(n, n, n)", namespace)
    assert find_borrowed(namespace["f"]) == "course_utils.formulas.flops"
