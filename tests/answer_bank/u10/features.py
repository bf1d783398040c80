"""Kinds of cases that the exercises of unit 10 have for every seed."""

from fractions import Fraction
from itertools import pairwise


def _numbers(case):
    total = 0
    for shape in case["shapes"]:
        product = 1
        for side in shape:
            product *= side
        total += product
    return total


def _hide_part(case):
    n, d, rate, latency, flops = case.values()
    top = (d - 1) * (latency * d * rate + 2 * n * 10**9) * flops
    return Fraction(top, 2 * n * d * rate * 10**9) % 1


def _at_once(case, kind, name):
    """Whether two events of a kind run at the same time."""
    some = [each for each in case["events"] if each["kind"] == kind and name in each["name"]]
    some.sort(key=lambda each: each["start_ns"])
    return any(one["end_ns"] > other["start_ns"] for one, other in pairwise(some))


FEATURES = {
    "u10-state-bytes": {
        **{f"stage {n}": lambda case, n=n: case["stage"] == n for n in range(4)},
        "ranks that divide": lambda case: case["num_params"] % case["num_ranks"] == 0,
        "ranks that do not divide": lambda case: case["num_params"] % case["num_ranks"] > 0,
        "one rank": lambda case: case["num_ranks"] == 1,
        "more ranks than parameters": lambda case: case["num_ranks"] > case["num_params"],
        "beyond a float": lambda case: case["num_params"] > 2**53,
        "fp32": lambda case: case["recipe"] == "fp32",
    },
    "u10-owners": {
        **{
            f"{name} on {ranks}": lambda case, name=name, ranks=ranks: (
                (case["scenario"], case["num_ranks"]) == (name, ranks)
            )
            for name in ("sgd", "adam")
            for ranks in (1, 2, 3, 4)
        },
        "parts of one number": lambda case: case["part_length"] == 1,
        "a part without grad, beside others": lambda case: (
            case["rank_without_grad"] is not None and case["num_ranks"] > 1
        ),
    },
    "u10-volume": {
        **{
            f"stage {stage} with {what}": lambda case, stage=stage, many=many: (
                case["stage"] == stage and (case["num_micro_batches"] > 1) == many
            )
            for stage in range(4)
            for many, what in ((False, "one micro-batch"), (True, "several"))
        },
        "one rank": lambda case: case["num_ranks"] == 1,
        "beyond a float": lambda case: case["num_params"] > 2**54,
    },
    "u10-layer": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "two ranks": lambda case: case["num_ranks"] == 2,
        "more ranks": lambda case: case["num_ranks"] > 2,
        "wide": lambda case: case["shape"][1] > case["shape"][0],
        "tall": lambda case: case["shape"][0] > case["shape"][1],
        "memory on several ranks": lambda case: (
            case["scenario"] == "memory" and case["num_ranks"] > 1
        ),
    },
    "u10-flat": {
        "ragged": lambda case: _numbers(case) % case["num_ranks"] > 0,
        "even": lambda case: _numbers(case) % case["num_ranks"] == 0 and case["num_ranks"] > 1,
        "fewer numbers than ranks": lambda case: _numbers(case) < case["num_ranks"],
        "one rank": lambda case: case["num_ranks"] == 1,
        "a single number": lambda case: [] in case["shapes"],
        "float32": lambda case: case["dtype"] == "float32",
        "bfloat16": lambda case: case["dtype"] == "bfloat16",
    },
    "u10-prefetch": {
        "one layer": lambda case: case["num_layers"] == 1,
        "several layers": lambda case: case["num_layers"] > 3,
        "one rank": lambda case: case["num_ranks"] == 1,
        "time on several ranks": lambda case: case["scenario"] == "time" and case["num_ranks"] > 1,
        "memory on several ranks": lambda case: (
            case["scenario"] == "memory" and case["num_ranks"] > 1
        ),
    },
    "u10-overlap": {
        "recorded": lambda case: any(each["name"].startswith("nccl") for each in case["events"]),
        "two kernels at once": lambda case: _at_once(case, "kernel", ""),
        "two gathers at once": lambda case: _at_once(case, "communication", "AllGather"),
        "two scatters at once": lambda case: _at_once(case, "communication", "ReduceScatter"),
        "not in the order of time": lambda case: (
            case["events"] != sorted(case["events"], key=lambda each: each["start_ns"])
        ),
    },
    "u10-norm": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "several ranks": lambda case: case["num_ranks"] > 2,
        "an empty part": lambda case: min(case["lengths"]) < case["num_ranks"],
        "a rank without numbers": lambda case: max(case["lengths"]) < case["num_ranks"],
        "a low limit": lambda case: case["max_norm"] < 1,
        "a high limit": lambda case: case["max_norm"] > 3 * sum(case["lengths"]) ** 0.5,
    },
    "u10-hide": {
        "one rank": lambda case: case["num_ranks"] == 1,
        "no latency": lambda case: case["latency_ns"] == 0,
        "much latency": lambda case: case["latency_ns"] >= 10**6,
        "a whole result": lambda case: _hide_part(case) == 0 and case["num_ranks"] > 1,
        "a rest": lambda case: _hide_part(case) > 0,
        "a little more than a whole result": lambda case: 0 < _hide_part(case) < 1e-11,
    },
    "u10-hybrid": {
        "several nodes of several ranks": lambda case: (
            min(case["num_nodes"], case["node_size"]) > 1
        ),
        "one node": lambda case: case["num_nodes"] == 1 < case["node_size"],
        "nodes of one rank": lambda case: case["node_size"] == 1 < case["num_nodes"],
        "one rank": lambda case: case["num_nodes"] == case["node_size"] == 1,
    },
}
