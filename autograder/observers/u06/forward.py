"""Attention on the machine of two memories: what it stores, and what it moves for that."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.comparing import num_changed
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import errors_as_data
from autograder.observers.u06.compared import facts_beside
from course_utils.instruments import TwoLevelMemory

SCENARIOS = ("ordinary", "extreme", "ragged", "traffic")
LOUD, LOW = "scores of every size", "every score very low"
UNWRITTEN = 7.5  # what lies in slow memory before anything is stored
ARRAYS = ("q", "k", "v", "out", "lse")


def inputs_of(case: Case) -> list[Tensor]:
    """Queries, keys and values of a case."""
    n, m, d = (case[name] for name in ("num_queries", "num_keys", "head_dim"))
    q, k, v = normal_numbers(100 * n + m, (n, d), (m, d), (m, d))
    if case["kind"] == LOUD:
        q = 400 * q
    if case["kind"] == LOW:  # below -745, the exponential of which is zero
        q, k = 40 + q.abs(), -40 - k.abs()
    return [q, k, v]


def capacity_of(case: Case) -> int:
    """Numbers that fast memory holds: a few tiles of each kind."""
    d, bq, bk = (case[name] for name in ("head_dim", "block_q", "block_k"))
    return int(4 * bq * d + 2 * bk * d + 4 * bq * bk + 8 * bq)


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """What was stored, loads and stores in numbers, and what is left in fast memory."""
    machine, inputs = TwoLevelMemory(capacity_of(case)), inputs_of(case)
    out, lse = torch.full_like(inputs[0], UNWRITTEN), torch.full_like(inputs[0][:, 0], UNWRITTEN)
    tensors = [*inputs, out, lse]
    arrays = [machine.slow(*pair) for pair in zip(tensors, ARRAYS, strict=True)]
    answer(machine, arrays, case["block_q"], case["block_k"])
    return {
        "inputs": inputs,
        "out": out,
        "lse": lse,
        "loaded": machine.loaded_elements,
        "stored": machine.stored_elements,
        "live": machine.live_elements,
    }


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Results beside the right ones; what was moved, where that counts: less is as good.

    Who moves less in all may store more: with keys in the outer loop results go to and fro.
    """
    is_counted = case["scenario"] == "traffic"
    moved = observed["loaded"] + observed["stored"]
    is_less = moved < right["traffic_elements"]
    return [
        *facts_beside(
            (observed["out"], observed["lse"]),
            (right["out"], right["lse"]),
            ask_of_result="Follow one wrong row of `out`. Which tiles of keys does its query meet, "
            "what are the maximum and the sums after each tile, and which line stores the row?",
            ask_of_lse="`out` is right, `lse` is not. Over which keys does the log-sum-exp of a "
            "wrong row go, what was subtracted from their scores, and which line stores it?",
        ),
        Fact(
            "changed_inputs",
            num_changed(observed["inputs"], inputs_of(case)),
            "arrays among q, k and v that have changed",
            "Which of the five arrays do you store to, and which are given?",
        ),
        Fact(
            "not_loaded_elements",
            max(0, sum(each.numel() for each in inputs_of(case)) - observed["loaded"]),
            "numbers of q, k and v that were never loaded",
            "Fast memory is the only place to compute. How do all numbers of q, k and v get there?",
        ),
        Fact(
            "traffic_elements",
            max(moved, right["traffic_elements"]) if is_counted else 0,
            "numbers loaded and stored",
            "Count loads and stores for each of the five arrays. Which array moves more often than "
            "it has to, and in which of your two loops?",
        ),
        Fact(
            "stored_elements",
            (right["stored_elements"] if is_less else observed["stored"]) if is_counted else 0,
            "numbers stored",
            "How often do you store each row of `out` and of `lse`, and is anything else stored?",
        ),
        Fact(
            "live_elements",
            observed["live"] if is_counted else 0,
            "numbers left in fast memory",
            "Something stays in fast memory when you are done. Which variable outside your "
            "function still holds a tile?",
        ),
    ]
