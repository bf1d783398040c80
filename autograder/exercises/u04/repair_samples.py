"""Check of a loop that collects parts of tensors: only the parts may stay in memory."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import EqualTo, Mistake
from autograder.exercises.u04.shared.held_by_loops import (
    FLOAT64_BYTES,
    ROUNDING,
    Batches,
    batches_in,
    held,
    layers_of,
    nothing_held,
    sample_cases,
)


@torch.no_grad()
def last_states(body: nn.Module, batches: Batches) -> list[Tensor]:
    """The course's own collection: the last row of each sequence, in storages of their own."""
    return [body(ids)[:, -1].clone() for ids, _ in batches]


@functools.lru_cache(maxsize=1000)
def _course_peak_bytes(**sizes: Any) -> int:
    """Peak of a loop that copies, and holds one batch's states while it computes the next."""
    body = nn.Sequential(*layers_of(sizes["width"], sizes["num_layers"]))
    batches = batches_in(sizes)

    @torch.no_grad()
    def collect() -> list[Tensor]:
        states = []
        for ids, _ in batches:
            hidden = body(ids)
            states.append(hidden[:, -1].clone())
        return states

    return held(collect, body).peak_bytes


def observe_samples(answer: Any, case: Case) -> object:
    """States, and what is held beside them, counted in batches of hidden states."""
    body = nn.Sequential(*layers_of(case["width"], case["num_layers"]))
    batches = batches_in(case)
    run = held(lambda: answer(body, batches), body)
    kept = FLOAT64_BYTES * case["num_sequences"] * case["width"]
    beside = (case["seq_len"] - 1) * kept
    left = run.left_bytes - case["num_batches"] * kept
    return {
        "wrong_states": int(not _are_states_right(run.result, body, batches)),
        "graphs": int(any(isinstance(each, Tensor) and each.requires_grad for each in run.result)),
        "batches_left": left // beside,
        "batches_at_peak": round(max(0, run.peak_bytes - _course_peak_bytes(**case)) / beside),
    }


def _are_states_right(got: Any, body: nn.Module, batches: Batches) -> bool:
    """Whether they equal those computed from the last tokens alone."""
    with torch.no_grad():
        wanted = [body(ids[:, -1]) for ids, _ in batches]
    if not isinstance(got, list) or len(got) != len(wanted):
        return False
    return all(
        isinstance(a, Tensor)
        and (a.shape, a.dtype) == (b.shape, b.dtype)
        and torch.allclose(a, b, rtol=ROUNDING, atol=ROUNDING)
        for a, b in zip(got, wanted, strict=True)
    )


def _all_left_where(has: Callable[[int], bool]) -> Callable[..., dict[str, int]]:
    """All batches of hidden states left, for some numbers of sequences."""

    def formula(num_batches: int, num_sequences: int, *sizes: int) -> dict[str, int]:
        return {"batches_left": num_batches} if has(num_sequences) else {}

    return formula


CHECK = Check(
    cases=sample_cases,
    reference=last_states,
    observe=observe_samples,
    judge=EqualTo(
        nothing_held("wrong_states", "graphs", "batches_left", "batches_at_peak"),
        Mistake(
            "What you return is not a list with one tensor of shape (b, h) for each batch, the "
            "states of its last tokens as they were. What has changed against the given loop?",
            lambda *case: {"wrong_states": 1},
        ),
        Mistake(
            "The states that you return carry a graph. What does the given loop say about "
            "gradients that yours does not?",
            lambda *case: {"graphs": 1},
        ),
        Mistake(
            "Only batches of a single sequence stay whole in memory. Does the method that you "
            "call copy always, or only where the numbers do not lie side by side already?",
            _all_left_where(lambda num_sequences: num_sequences == 1),
        ),
        Mistake(
            "The hidden states of all tokens of all batches are still there, and they have no "
            "graph. What does a part of a tensor hold on to?",
            _all_left_where(lambda num_sequences: True),
        ),
        Mistake(
            "What is left in the end is right, but until then whole batches lie in memory. When "
            "does a batch's part have to come into a storage of its own?",
            lambda num_batches, *sizes: {"batches_at_peak": num_batches - 2},
        ),
        together=True,
    ),
)
