"""Kinds of cases that the exercises of unit 08 have for every seed."""

import math

FEATURES = {
    "u08-accumulate": {
        "equal": lambda case: case["scenario"] == "equal",
        "one sequence each": lambda c: c["scenario"] == "ragged" and c["micro_batch_size"] == 1,
        "a smaller last one": lambda c: len(c["lengths"]) % c["micro_batch_size"] > 0,
        "a rest that is not evened out": lambda c: (
            c["scenario"] == "remainder" and c["micro_batch_size"] == 4
        ),
        "a micro-batch without targets": lambda case: case["scenario"] == "empty micro-batch",
        "no targets at all": lambda case: not any(case["lengths"]),
        "gradients before": lambda case: case["scenario"] == "existing gradients",
        "large weights": lambda case: case["width"] == 48,
        "large activations": lambda case: max(case["lengths"]) > 100,
    },
    "u08-configure": {
        "one device": lambda case: case["num_devices"] == 1,
        "several devices": lambda case: case["num_devices"] > 1,
        "comes out even": lambda case: case["global_batch_tokens"] % case["seq_len"] == 0,
        "does not come out even": lambda case: case["global_batch_tokens"] % case["seq_len"] > 0,
        "the largest divides": lambda c: (
            c["max_micro_batch"] > 1
            and c["global_batch_tokens"] // c["seq_len"] // c["num_devices"] % c["max_micro_batch"]
            == 0
        ),
        "one sequence fits": lambda case: case["max_micro_batch"] == 1,
        "all fit": lambda case: case["max_micro_batch"] == 32,
    },
    "u08-noise-scale": {
        "two examples": lambda case: len(case["gradients"]) == 2,
        "more parameters than examples": lambda c: len(c["gradients"][0]) > len(c["gradients"]),
        "no mean gradient": lambda case: not any(map(sum, zip(*case["gradients"], strict=True))),
        "no mean gradient, after a division by the largest number": lambda case: (
            any(map(any, case["gradients"]))
            and not any(map(sum, zip(*case["gradients"], strict=True)))
            and math.frexp(max(abs(n) for row in case["gradients"] for n in row))[0] == 1 / 2
        ),
        "all zero": lambda case: not any(map(any, case["gradients"])),
        "tiny": lambda case: 0 < max(map(max, case["gradients"])) < 1e-8,
        "even smaller": lambda case: 0 < max(map(max, case["gradients"])) < 1e-58,
        "nearly equal rows": lambda case: min(map(min, case["gradients"])) > 1e5,
        "no noise": lambda case: all(row == case["gradients"][0] for row in case["gradients"]),
    },
    "u08-tradeoff": {
        "at the critical size": lambda c: c["critical_batch_size"] == c["batch_size"],
        "far below it": lambda c: c["critical_batch_size"] > 100 * c["batch_size"],
        "far above it": lambda c: 100 * c["critical_batch_size"] < c["batch_size"],
    },
    "u08-mean-of-means": {
        "ragged": lambda case: len(set(case["lengths"])) > 1,
        "equal": lambda case: len(set(case["lengths"])) == 1,
        "a smaller last one": lambda c: len(c["lengths"]) % c["micro_batch_size"] > 0,
        "one sequence each": lambda case: case["micro_batch_size"] == 1,
        "all in one": lambda case: case["micro_batch_size"] >= len(case["lengths"]),
    },
    "u08-train": {
        "ragged": lambda case: case["scenario"] == "accumulation",
        "large activations": lambda case: max(map(max, case["lengths"])) > 100,
        "a gradient that is too long": lambda case: case["max_norm"] < 1,
        "a learning rate that falls": lambda case: case["scenario"] == "schedule",
        "a short last group": lambda c: len(c["lengths"]) % c["micro_batches_per_step"] > 0,
        "gradients before": lambda case: case["scenario"] == "old gradients",
        "a group without targets": lambda case: case["kind"] == "targets",
        "a micro-batch without targets in a group that has some": lambda case: (
            case["scenario"] == "accumulation" and [0, 0] in case["lengths"]
        ),
        "an infinite loss": lambda case: case["kind"] == "loss",
        "an infinite gradient": lambda case: case["kind"] == "gradient",
    },
    "u08-two-batch": {
        "nothing positive": lambda c: (
            c["big_squared_norm"] * c["big_batch_size"]
            < c["small_squared_norm"] * c["small_batch_size"]
        ),
        "exactly zero": lambda c: (
            c["big_squared_norm"] * c["big_batch_size"]
            == c["small_squared_norm"] * c["small_batch_size"]
        ),
        "tiny": lambda c: 0 < c["small_squared_norm"] < 1e-12,
        "even smaller": lambda c: 0 < c["small_squared_norm"] < 1e-30,
        "negative trace": lambda c: c["big_squared_norm"] > c["small_squared_norm"],
        "single examples": lambda case: case["small_batch_size"] == 1,
        "near sizes": lambda c: c["big_batch_size"] <= 2 * c["small_batch_size"],
        "far sizes": lambda c: c["big_batch_size"] >= 64 * c["small_batch_size"],
    },
    "u08-buffer": {
        "one micro-batch": lambda case: case["num_micro_batches"] == 1,
        "many micro-batches": lambda case: case["num_micro_batches"] == 6,
        "a frozen layer": lambda case: case["kind"] == "frozen",
        "a shared weight": lambda case: case["kind"] == "shared",
    },
}
