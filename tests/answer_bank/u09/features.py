"""Kinds of cases that the exercises of unit 09 have for every seed."""

import itertools
import math
from collections import Counter
from itertools import pairwise

from autograder.exercises.u09.late import measured_lateness


def _total_bytes(case: dict[str, list[int]]) -> int:
    return sum(8 * a * b for a, b in pairwise(case["widths"]))


def _in_reverse(case):
    return case["arrival"] == list(range(len(case["arrival"])))[::-1]


def _ordered(case, kind):
    """Events of a kind in the order of time."""
    some = [each for each in case["events"] if each["name"] == kind]
    return sorted(some, key=lambda each: each["start_ns"])


def _last_ranks(case):
    """How often each rank is the last to begin a collective."""
    in_order = sorted(case["events"], key=lambda each: each["start_ns"])
    num_ranks = len({each["rank"] for each in in_order})
    return Counter(each["rank"] for each in in_order[num_ranks - 1 :: num_ranks])


def _shortest_inside(case):
    inside = Counter()
    for each in case["events"]:
        inside[each["rank"]] += each["end_ns"] - each["start_ns"]
    return inside.most_common()[-1][0]


FEATURES = {
    "u09-global-mean": {
        "ragged": lambda case: len(set(case["num_targets"])) > 1,
        "a rank without": lambda case: 0 in case["num_targets"] and any(case["num_targets"]),
        "many targets": lambda case: 2**15 <= sum(case["num_targets"]) < 2**24,
        "more than int32 holds": lambda case: sum(case["num_targets"]) >= 2**31,
        "none at all": lambda case: not any(case["num_targets"]),
        "one rank": lambda case: len(case["num_targets"]) == 1,
    },
    "u09-each": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "many ranks": lambda case: case["num_ranks"] == 4,
        "unused": lambda case: case["scenario"] == "unused on a rank",
        "frozen": lambda case: case["scenario"] == "frozen",
        "gradients before": lambda case: case["scenario"] == "gradients before",
        "a shared bias": lambda case: case["is_bias_shared"],
    },
    "u09-buckets": {
        "a bucket that is exactly full": lambda case: case["scenario"] == "overlap",
        "another order": lambda case: case["is_reordered"],
        "gradients before": lambda case: case["has_gradients"],
        "three matrices": lambda case: len(case["widths"]) == 4,
        "all in one": lambda case: case["bucket_bytes"] > 300,
        "the last one full": lambda case: case["bucket_bytes"] == 1,
        "single precision": lambda case: case["precision"] == "float32",
    },
    "u09-hidden": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "comes out even": lambda case: (
            (case["bytes_per_element"] * (case["num_ranks"] - 1) * case["flops_per_second"])
            % (2 * case["num_ranks"] * case["bytes_per_second"])
            == 0
        ),
        "nearly even": lambda case: case["num_ranks"] > 500,
        "few parameters": lambda case: case["num_params"] < 5,
        "four bytes": lambda case: case["bytes_per_element"] == 4,
    },
    "u09-late": {
        "not in the order of time": lambda case: (
            case["events"] != sorted(case["events"], key=lambda each: each["start_ns"])
        ),
        "calls that look alike": lambda case: (
            max(Counter((e["name"], e["bytes"], e["rank"]) for e in case["events"]).values()) > 1
        ),
        "asked for the straggler": lambda case: (
            measured_lateness(**case)["straggler"] == case["rank"]
        ),
        "asked for another": lambda case: measured_lateness(**case)["straggler"] != case["rank"],
        "recorded": lambda case: any(each["name"].startswith("nccl") for each in case["events"]),
        "the straggler is not most often last": lambda case: (
            _last_ranks(case).most_common(1)[0][0] != measured_lateness(**case)["straggler"]
        ),
        "the straggler is not shortest inside": lambda case: (
            _shortest_inside(case) != measured_lateness(**case)["straggler"]
        ),
    },
    "u09-no-sync": {
        "one micro-batch": lambda case: case["num_micro_batches"] == 1,
        "several": lambda case: case["num_micro_batches"] > 2,
        "three ranks": lambda case: case["num_ranks"] == 3,
        "one micro-batch and calls in hooks": lambda case: (
            case["num_micro_batches"] == 1 and case["trainer"] == "calls in hooks"
        ),
        "several and calls in hooks": lambda case: (
            case["num_micro_batches"] > 2 and case["trainer"] == "calls in hooks"
        ),
    },
    "u09-ring": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "two ranks": lambda case: case["num_ranks"] == 2,
        "uneven parts": lambda case: math.prod(case["shape"]) % case["num_ranks"] > 0,
        "fewer numbers": lambda case: math.prod(case["shape"]) < case["num_ranks"],
        "rows": lambda case: len(case["shape"]) == 2,
        "an infinite number": lambda case: case["num_infinite"] == 1,
    },
    "u09-flat": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "unused": lambda case: case["scenario"] == "unused on a rank",
        "frozen": lambda case: case["scenario"] == "frozen",
        "gradients before": lambda case: case["scenario"] == "gradients before",
        "memory": lambda case: case["scenario"] == "memory",
        "transposed": lambda case: case["is_transposed"] and case["num_ranks"] > 1,
        "a shared bias": lambda case: case["is_bias_shared"],
    },
    "u09-memory": {
        "one for all": lambda case: case["bucket_bytes"] > _total_bytes(case),
        "one for each": lambda case: case["bucket_bytes"] == 8,
        "single precision": lambda case: case["precision"] == "float32",
        "three matrices": lambda case: len(case["widths"]) == 4,
    },
    "u09-dropout": {
        "two ranks": lambda case: case["num_ranks"] == 2,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a counter, and a buffer that is not saved": lambda case: case["kind"] == "counting",
        "nested, and frozen": lambda case: case["kind"] == "nested",
        "shared": lambda case: case["kind"] == "shared",
    },
    "u09-unused": {
        "unused on one rank": lambda case: case["unused"][0] != case["unused"][1],
        "unused on all ranks": lambda case: set.intersection(*map(set, case["unused"])),
        "all used": lambda case: not any(case["unused"]) and case["kind"] == "exact",
        "shared": lambda case: case["kind"] == "shared",
        "out of order": lambda case: case["kind"] == "reordered",
        "three ranks": lambda case: len(case["unused"]) == 3,
        "a large member first": lambda case: case["kind"] == "swapped",
        "single precision": lambda case: case["kind"] == "float32",
    },
    "u09-ddp-buckets": {
        "looks for unused parameters": lambda case: case["finds_unused"],
        "does not": lambda case: not case["finds_unused"],
        "arrives in reverse": _in_reverse,
        "arrives in another order": lambda case: not _in_reverse(case),
        "one limit": lambda case: case["first_limit_bytes"] == case["limit_bytes"],
        "one bucket": lambda case: sum(case["parameter_bytes"]) < case["first_limit_bytes"],
        "a first bucket that is exactly full": lambda case: (
            case["parameter_bytes"][0] == case["first_limit_bytes"]
        ),
        "larger than a limit": lambda case: max(case["parameter_bytes"]) > case["limit_bytes"],
    },
    "u09-read-step": {
        "the last bucket overtakes": lambda case: (
            max(each["end_ns"] for each in _ordered(case, "gloo:all_reduce"))
            > _ordered(case, "gloo:all_reduce")[-1]["end_ns"]
        ),
        "the first is not the largest": lambda case: (
            max(each["bytes"] for each in _ordered(case, "gloo:all_reduce"))
            > _ordered(case, "gloo:all_reduce")[0]["bytes"]
        ),
        "not in the order of time": lambda case: (
            case["events"] != sorted(case["events"], key=lambda each: each["start_ns"])
        ),
        "two at once": lambda case: any(
            one["end_ns"] > other["start_ns"]
            for one, other in itertools.pairwise(_ordered(case, "gloo:all_reduce"))
        ),
    },
}
