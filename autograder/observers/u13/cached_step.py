"""A step of decoding on a cache: result, buffers afterwards, and the bytes that moved."""

from typing import Any

import torch
from torch import Tensor

from autograder.checking.fact import Case, Fact, Plain
from autograder.observers.checksums import checksum, wrong_rows
from autograder.observers.random_numbers import normal_numbers
from autograder.observers.tools import errors_as_data, keep, undisturbed
from autograder.observers.u13.shapes import of_shape
from course_utils.instruments import count_bytes

# How much may be moved beside the cache, as a multiple of its filled part. Scores and weights may
# take that much; a copy of keys and values is written and read, which makes 2.
ENOUGH = 1.5


def inputs_of(case: Case) -> list[Tensor]:
    """Query, new key and value, and both buffers, in float64; behind the filled part is noise."""
    b, a, a_kv, d = (case[name] for name in ("num_sequences", "num_heads", "num_kv_heads", "width"))
    length, room = case["length"], case["room"]
    shapes = [(b, a, d), (b, a_kv, d), (b, a_kv, d), (b, a_kv, room, d), (b, a_kv, room, d)]
    tensors = normal_numbers(1000 * length + 10 * a + b, *shapes)
    for buffer in tensors[3:]:
        buffer[:, :, length:] *= 30
    return tensors


def buffers_afterwards(case: Case) -> list[Tensor]:
    """Both buffers with the new key and value in their place."""
    _, *new, k_cache, v_cache = inputs_of(case)
    for buffer, row in zip((k_cache, v_cache), new, strict=True):
        buffer[:, :, case["length"]] = row
    return [k_cache, v_cache]


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """One call, while the bytes are counted."""
    inputs = inputs_of(case)
    caches, results = inputs[3:], list[Tensor]()
    with undisturbed(), torch.no_grad():
        moved = count_bytes(lambda: keep(results, answer(*inputs, case["length"])), cache=caches)
    read, written = moved.of("cache")
    return {
        "out": of_shape(results[0], tuple(inputs[0].shape)).detach().double(),
        "caches": [each.clone() for each in caches],
        "read_bytes": read,
        "written_bytes": written,
        "other_bytes": sum(moved.of("other")),
    }


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """Rows and cells that are wrong; bytes where the scenario is about them."""
    wrong_cells = sum(
        int((ours != theirs).sum()) if ours.shape == theirs.shape else theirs.numel()
        for ours, theirs in zip(observed["caches"], buffers_afterwards(case), strict=True)
    )
    of_result = [
        Fact(
            "wrong_cells",
            wrong_cells,
            "The buffers do not hold what they should.",
            "Which cells of the buffers may change, and to what?",
        ),
        Fact(
            "wrong_rows",
            wrong_rows(observed["out"], right["out"]),
            "The result is wrong.",
            "Which tokens does the query see, by what are scores divided, and which heads share a "
            "key?",
        ),
        Fact(
            "checksum",
            checksum(observed["out"], right["out"]),
            "the sum of all results, each with a weight of its own",
            "Follow one query head by hand: over which keys does its softmax run, and with which "
            "values are the weights summed?",
        ),
    ]
    return of_result + (_bytes(observed, right) if case["scenario"] == "bytes" else [])


def _bytes(observed: Plain, right: Plain) -> list[Fact]:
    """What is read and written of the cache, and copied beside it."""
    times = round(observed["other_bytes"] / right["read_bytes"], 1)
    return [
        Fact(
            "read_bytes",
            observed["read_bytes"],
            "bytes read from the cache",
            "The result is right. How often do you read the filled part of the buffers, and do you "
            "read beyond it?",
        ),
        Fact(
            "written_bytes",
            observed["written_bytes"],
            "bytes written to the cache",
            "The result is right. How many cells do you write, and how many are new?",
        ),
        Fact(
            "times_copied",
            0.0 if times <= ENOUGH else times,
            "the copying beside the cache, as a multiple of its filled part",
            "The result is right, and a tensor as large as the cache is made on the way. Which of "
            "your operations copies keys and values?",
        ),
    ]
