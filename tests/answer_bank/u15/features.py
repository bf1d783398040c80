"""Kinds of cases that the exercises of unit 15 have for every seed."""


def _sizes(case: dict) -> int:
    """Bytes of all weights and biases."""
    pairs = zip(case["widths"], case["widths"][1:], strict=False)
    return sum(8 * (a + 1) * b for a, b in pairs)


FEATURES = {
    "u15-tied": {
        f"{kind} on several ranks": lambda case, kind=kind: (
            case["kind"] == kind and case["num_ranks"] > 1
        )
        for kind in ("two", "three", "bias", "layer", "equal", "frozen")
    }
    | {"one rank": lambda case: case["num_ranks"] == 1},
    "u15-hang": {
        "fewer rows than ranks": lambda case: case["num_rows"] < case["num_ranks"],
        "more rows than ranks, and a rank without": lambda case: (
            case["num_rows"] > case["num_ranks"]
            and -(-case["num_rows"] // -(-case["num_rows"] // case["num_ranks"]))
            < case["num_ranks"]
        ),
        "a rank without, with gradients": lambda case: (
            case["has_gradients"] and case["num_rows"] < case["num_ranks"]
        ),
        "equal parts": lambda case: case["num_rows"] % case["num_ranks"] == 0,
        "one rank": lambda case: case["num_ranks"] == 1,
    },
    "u15-hooks": {
        "gradients before": lambda case: case["has_gradients"],
        "three ranks": lambda case: case["num_ranks"] == 3,
        "slow links": lambda case: case["bandwidth"] <= 4,
        "two layers": lambda case: len(case["widths"]) == 3,
        "four layers": lambda case: len(case["widths"]) == 5,
    },
    "u15-apart": {
        "no step": lambda case: case["num_steps"] == 0,
        "several steps": lambda case: case["num_steps"] > 1,
        "more ranks than two": lambda case: case["num_ranks"] > 2,
        "shares of different sizes": lambda case: case["num_rows"] % case["num_ranks"] > 0,
    },
    "u15-clip": {
        "ranks that agree": lambda case: case["kind"] == "equal" and case["num_ranks"] > 1,
        "ranks that nearly cancel": lambda case: case["kind"] == "opposed",
        "neither": lambda case: case["kind"] == "mixed",
        "one rank": lambda case: case["num_ranks"] == 1,
    },
    "u15-scale": {
        "one micro-batch": lambda case: case["num_micro_batches"] == 1 and case["num_ranks"] > 1,
        "several on several ranks": lambda case: (
            case["num_micro_batches"] > 1 and case["num_ranks"] > 1
        ),
        "one rank": lambda case: case["num_ranks"] == 1,
    },
    "u15-drift": {
        "all in one bucket that is exactly full": lambda case: _sizes(case) == case["bucket_bytes"],
        "never full": lambda case: _sizes(case) < case["bucket_bytes"],
        "one for each": lambda case: case["bucket_bytes"] == 8,
        "one rank": lambda case: case["num_ranks"] == 1,
    },
    "u15-masks": {
        "several ranks and steps": lambda case: case["num_ranks"] > 2 and case["num_steps"] > 1,
        "one rank": lambda case: case["num_ranks"] == 1,
        "seed zero": lambda case: case["seed"] == 0,
        "another seed": lambda case: case["seed"] > 0,
    },
}
