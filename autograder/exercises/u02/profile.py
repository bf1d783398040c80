"""Check of what is read from a profiler's table."""

import random
from typing import Any

import pandas as pd

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo
from autograder.checking.precision import PROMISED
from autograder.exercises.model_answers import mistakes_of

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")
INSIDE = {  # what calls them, from the outside in
    "aten::mm": ("aten::linear", "aten::matmul"),
    "aten::addmm": ("aten::linear",),
    "aten::bmm": ("aten::matmul",),
}
OTHERS = ("aten::mul", "aten::silu", "aten::add", "aten::_softmax", "aten::sum", "aten::cumsum")


def table_cases(seed: int) -> list[Case]:
    """Tables with and without biases and batches; operators that call others, in any order.

    The second has the smallest share of products, so that feedback shows a short one.
    """
    rng = random.Random(seed)
    worked = [
        _row("aten::mm", 3, 70, 75),
        _row("aten::linear", 3, 5, 85),
        _row("aten::matmul", 3, 5, 80),
        _row("aten::empty", 3, 5, 5),
        _row("aten::mul", 4, 15, 15),
    ]
    others = rng.randint(2400, 2600)
    short = [
        _row("aten::bmm", 1, 3, 4),
        _row("aten::matmul", 1, 2, 6),
        _row("aten::empty", 1, 1, 1),
        _row("aten::mul", 9, others, others),
    ]
    kinds = [("aten::mm",), PRODUCTS, ("aten::addmm", "aten::bmm"), ("aten::bmm", "aten::mm"), ()]
    return [
        {"rows": worked},
        {"rows": short},
        *({"rows": _table(rng, kinds[n % 5])} for n in range(22)),
    ]


def _row(operator: str, calls: int, own_us: int, total_us: int) -> dict[str, Any]:
    return {"operator": operator, "calls": calls, "own_us": own_us, "total_us": total_us}


def _table(rng: random.Random, products: tuple[str, ...]) -> list[dict[str, Any]]:
    """A profile of made-up calls: each product inside of what calls it, with a small one inside.

    Other operators run outside of all that.
    """
    sums: dict[str, list[int]] = {}

    def add(operator: str, calls: int, own_us: int, total_us: int) -> None:
        row = sums.setdefault(operator, [0, 0, 0])
        sums[operator] = [a + b for a, b in zip(row, (calls, own_us, total_us), strict=True)]

    for product in products:
        calls, own, inner = rng.randint(2, 99), rng.randint(100, 9000), rng.randint(3, 60)
        add("aten::empty", calls, inner, inner)
        total = own + inner
        add(product, calls, own, total)
        for outer in reversed(INSIDE[product]):
            own = rng.randint(5, 80)
            total += own
            add(outer, calls, own, total)
        if rng.random() < 0.5:
            total += 7
            add(
                f"autograd::engine::evaluate_function: {product[6:].title()}Backward0",
                calls,
                7,
                total,
            )
    own = rng.randint(5, 50)
    add("forward", 1, own, own + sum(row[1] for row in sums.values()))
    for operator in rng.sample(OTHERS, 4):
        own = rng.randint(10, 3000)
        add(operator, rng.randint(1, 200), own, own)
    rows = [_row(name, *numbers) for name, numbers in sums.items()]
    return rng.sample(rows, len(rows))


def read_with_pandas(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The same two numbers from a data frame."""
    table = pd.DataFrame(rows).set_index("operator")
    products = table.loc[table.index.isin(PRODUCTS)]
    share = 1 - table.drop(products.index).own_us.sum() / table.own_us.sum()
    return {"calls": int(products.calls.sum()), "share": float(share)}


CHECK = Check(
    cases=table_cases,
    judge=EqualTo(read_with_pandas, *mistakes_of("u02-profile"), relative_tolerance=PROMISED),
    fallback="course_utils.instruments.profiling.products_in",
    answers=("course_utils.instruments.profiling",),
)
