"""Predictions: what a student expects before the measurement.

A prediction is not graded. It is kept in the work folder, can be changed until the measurement is
shown, and is then shown beside it.
"""

import math

import pandas as pd

from autograder import progress_file

Number = int | float


def predict(name: str, value: Number | None, unit: str) -> None:
    """Keep a prediction, in the given unit, until the measurement is shown.

    Args:
        name: Id of the prediction.
        value: The number expected; None while there is none.
        unit: What the number counts, such as ``"bytes"``.
    """
    kept = progress_file.load()["predictions"].get(name)
    if kept and kept["revealed"]:
        was = _in_words(kept["value"])
        print(f"Your prediction was {was} {unit}. You have seen the measurement, so it stays.")
    elif value is None:
        print("No prediction yet: write a number in place of None and run this cell again.")
    elif type(value) not in (int, float) or not 0 <= value < math.inf:
        print(f"Expected a number such as 8_000_000 or 8e6, in {unit}; got {value!r}.")
    else:
        progress_file.remember(
            "predictions", name, {"value": value, "unit": unit, "revealed": False}
        )
        print(f"Saved your guess: {_in_words(value)} {unit}. The measurement will show it.")


def compare(
    name: str,
    unit: str,
    *,
    measured: Number,
    computed: Number | None = None,
    is_label: bool = False,
) -> pd.DataFrame:
    """A table of predicted, computed and measured, each with its ratio to the measurement.

    Args:
        name: Id of the prediction.
        unit: What the numbers count.
        measured: What an instrument gave; not zero, unless it is a label.
        computed: What a formula gave, if there is one.
        is_label: Whether the numbers only name things, as ranks do; labels have no ratio.
    """
    kept = progress_file.load()["predictions"].get(name)
    rows: dict[str, Number] = {} if computed is None else {"computed": computed}
    rows["measured"] = measured
    if kept:
        progress_file.amend("predictions", name, revealed=True)
        rows = {"predicted": kept["value"]} | rows
    table = {unit: [_in_words(value) for value in rows.values()]}
    if not is_label:
        table["ratio to measured"] = [_ratio_in_words(value / measured) for value in rows.values()]
    return pd.DataFrame(table, index=list(rows))


def _in_words(value: Number) -> str:
    """Digits in groups; a whole number has no decimal point, even if written as 1e10."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.6g}"


def _ratio_in_words(ratio: float) -> str:
    """A readable ratio: 0.82, 1 / 2,048, 48,104."""
    if ratio > 0 and 1 / ratio >= 10:
        return f"1 / {1 / ratio:,.0f}"
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.4g}"
