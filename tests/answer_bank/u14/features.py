"""Kinds of cases that the exercises of unit 14 have for every seed."""

import numpy as np


def _sign(case, first):
    """Whether the unrestricted best constant of a case is below zero."""
    rows = np.array(case["rows"])
    relative = rows[:, :3] / rows[:, 3:]
    solution = np.linalg.lstsq(relative[:, 1:], 1 - relative[:, 0], rcond=None)[0]
    return solution[0 if first else 1] < 0


def _fitting(case):
    """Seconds of each plan that fits."""
    memory = case["machine"]["memory_bytes"]
    return {key: seconds for key, (taken, seconds) in case["costs"].items() if taken <= memory}


def _narrowest(case, below=True):
    """Bytes between the memory and a plan faster than all others of its bytes or less."""
    memory = case["machine"]["memory_bytes"]
    near = {
        abs(taken - memory) for taken, _ in case["costs"].values() if (taken <= memory) == below
    }
    return min(near, default=None)


def _passes(case):
    plan = case["plan"]
    return case["num_sequences"] // (plan["data"] * plan["micro_batch"])


FEATURES = {
    "u14-convention": {
        **{
            name: lambda case, name=name: case["convention"] == name
            for name in ("6N", "6N + attention", "with recomputation", "lecture")
        },
        "one layer": lambda case: case["model"]["num_layers"] == 1,
        "without a gate": lambda case: not case["model"].get("is_gated", True),
        "untied": lambda case: not case["model"]["is_tied"],
        "shared keys": lambda case: case["model"]["num_kv_heads"] < case["model"]["num_heads"],
    },
    "u14-work": {
        "gated": lambda case: case["model"].get("is_gated", True),
        "without a gate": lambda case: not case["model"].get("is_gated", True),
        "layers run again": lambda case: case["is_recomputed"],
        "layers run once": lambda case: not case["is_recomputed"],
        "one layer": lambda case: case["model"]["num_layers"] == 1,
    },
    "u14-calibrate": {
        "attention would be negative": lambda case: _sign(case, first=True),
        "elementwise would be negative": lambda case: _sign(case, first=False),
        "both are above zero": lambda case: not (_sign(case, True) or _sign(case, False)),
        "times of any size": lambda case: (
            max(row[3] for row in case["rows"]) > 5 * min(row[3] for row in case["rows"])
        ),
    },
    "u14-plan": {
        "within 2 %": lambda case: case["scenario"] == "within 2 %",
        "within 10 %": lambda case: case["scenario"] == "within 10 %",
        "slow links": lambda case: case["machine"]["link_bytes_per_second"] <= 20e9,
        "fast links": lambda case: case["machine"]["link_bytes_per_second"] >= 150e9,
        "little memory": lambda case: case["machine"]["memory_bytes"] < 40e9,
        "eight devices": lambda case: case["machine"]["num_devices"] == 8,
        "four devices": lambda case: case["machine"]["num_devices"] == 4,
        "the fastest plan fits to the byte": lambda case: _narrowest(case) == 0,
        "a faster plan lacks a byte": lambda case: _narrowest(case, below=False) == 1,
        "a replica's share is no power of two": lambda case: (
            case["num_sequences"] == 12 and case["machine"]["num_devices"] == 4
        ),
        "replicas do not divide the sequences": lambda case: (
            case["num_sequences"] % case["machine"]["num_devices"] > 0
        ),
        "only stage 3 fits": lambda case: {key.split(".")[3] for key in _fitting(case)} == {"3"},
        "stage 3 is fastest, others fit": lambda case: (
            min(fits := _fitting(case), key=fits.get).split(".")[3] == "3"
            and {key.split(".")[3] for key in fits} > {"3"}
        ),
    },
    "u14-fits": {
        **{
            f"stage {n}": lambda case, n=n: (
                case["plan"]["zero_stage"] == n and case["plan"]["data"] > 1
            )
            for n in range(4)
        },
        "one replica": lambda case: case["plan"]["data"] == 1,
        "several stages": lambda case: case["plan"]["pipeline"] > 1,
        "few micro-batches": lambda case: _passes(case) < case["plan"]["pipeline"],
        "many micro-batches": lambda case: _passes(case) > case["plan"]["pipeline"] > 1,
        "tensor ranks": lambda case: case["plan"]["tensor"] > 1,
        "layers run again": lambda case: case["plan"]["is_recomputed"],
    },
    "u14-exposed": {
        "hidden": lambda case: 0 < case["reduce_seconds"] < 2 * case["forward_seconds"],
        "too much to hide": lambda case: case["reduce_seconds"] > 2 * case["forward_seconds"],
        "nothing to sum": lambda case: case["reduce_seconds"] == 0,
        "one layer": lambda case: case["num_layers"] == 1,
        "one stage": lambda case: case["num_stages"] == 1,
        "one micro-batch": lambda case: case["num_micro_batches"] == 1,
    },
    "u14-days": {
        "a full last step": lambda case: case["num_tokens"] % case["tokens_per_step"] == 0,
        "a last step that is not full": lambda case: (
            case["num_tokens"] % case["tokens_per_step"] > 0
        ),
        "one device": lambda case: case["num_devices"] == 1,
        "many devices": lambda case: case["num_devices"] > 100,
    },
}
