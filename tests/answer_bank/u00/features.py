"""Kinds of cases that the exercises of unit 00 have for every seed."""

import math
from typing import Any

from autograder.exercises.u00 import counted_memories


def _num_bytes(case: dict[str, Any]) -> int:
    return math.prod(case["shape"]) * int(case["element_bytes"])


FEATURES = {
    "u00-tensor-bytes": {
        "no axis": lambda case: case["shape"] == (),
        "one axis": lambda case: len(case["shape"]) == 1,
        "four axes": lambda case: len(case["shape"]) == 4,
        "an empty axis": lambda case: 0 in case["shape"],
        "more than 32 bits hold": lambda case: 2**32 < _num_bytes(case) < 2**53,
        "more than a float holds": lambda case: int(float(_num_bytes(case))) != _num_bytes(case),
        "two equal axes": lambda case: len(set(case["shape"])) < len(case["shape"]),
        "a size of one": lambda case: 1 in case["shape"] and len(case["shape"]) > 1,
        **{
            f"{size} bytes an element": lambda case, size=size: case["element_bytes"] == size
            for size in (1, 2, 4, 8)
        },
    },
    "u00-state-gib": {
        "less than one GiB": lambda case: case["num_params"] * case["bytes_per_param"] < 2**30,
        "more than a TiB": lambda case: case["num_params"] * case["bytes_per_param"] > 2**40,
        "bf16 weights": lambda case: case["bytes_per_param"] == 2,
        "training state": lambda case: case["bytes_per_param"] == 16,
    },
    "u00-step-seconds": {
        "one sequence": lambda case: case["num_sequences"] == 1,
        "many sequences": lambda case: case["num_sequences"] > 64,
        "an odd length": lambda case: case["seq_len"] % 2 == 1,
        "a laptop": lambda case: case["flops_per_second"] <= 10**11,
        "more than 64 bits hold": lambda case: (
            case["num_sequences"] * case["seq_len"] * case["flops_per_token"] >= 2**63
        ),
        "a cluster": lambda case: case["flops_per_second"] > 10**17,
    },
    "u00-four-memories": {
        "more than a float holds": lambda case: all(
            int(float(each)) != each for each in counted_memories(**case).values()
        ),
        "nothing saved": lambda case: not case["live_bytes"]["saved_for_backward"],
        "nothing cached": lambda case: not case["cached_bytes"],
        "nothing outside": lambda case: not case["outside_bytes"],
        "fewer categories": lambda case: len(case["live_bytes"]) < 5,
        "saved comes first": lambda case: next(iter(case["live_bytes"])) == "saved_for_backward",
        "everything": lambda case: all(case["live_bytes"].values()) and case["cached_bytes"] > 0,
        "equal categories": lambda case: (
            len(set(case["live_bytes"].values()) - {0})
            < sum(each > 0 for each in case["live_bytes"].values())
        ),
    },
}
