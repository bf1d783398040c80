"""Kinds of cases that the exercises of unit 02 have for every seed."""

from course_utils.traces import GPU_WORK

FEATURES = {
    "u02-profile": {
        name: lambda case, name=name: any(row["operator"] == name for row in case["rows"])
        for name in ("aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear")
    },
    "u02-waits": {
        "a loader": lambda case: any("DataLoader" in each["name"] for each in case["events"]),
        "launches that are not recorded": lambda case: any(
            each["launch_ns"] is None and each["kind"] in GPU_WORK for each in case["events"]
        ),
        "several streams": lambda case: (
            len({each["lane"] for each in case["events"] if each["kind"] in GPU_WORK}) > 1
        ),
        "copies": lambda case: any(each["kind"] == "memcpy" for each in case["events"]),
        "a range on the GPU": lambda case: any(
            each["lane"] == "gpu" and each["kind"] == "range" for each in case["events"]
        ),
        "a launch at 0 in the midst": lambda case: (
            any(each["launch_ns"] == 0 for each in case["events"])
            and min(each["start_ns"] for each in case["events"]) < 0
        ),
        "a loader's range on the GPU": lambda case: any(
            each["lane"] == "gpu" and "DataLoader" in each["name"] for each in case["events"]
        ),
        "launches far ahead": lambda case: any(
            each["start_ns"] - (each["launch_ns"] or each["start_ns"]) > 10**7
            for each in case["events"]
        ),
    },
    "u02-product-bytes": {
        "one row": lambda case: case["rows"] == 1,
        "fp8": lambda case: case["element_bytes"] == 1,
        "fp32": lambda case: case["element_bytes"] == 4,
        "beyond a float": lambda case: case["inner"] * case["columns"] > 2**53,
    },
    "u02-roofline-seconds": {
        "no operation": lambda case: not case["operations"],
        "without FLOPs": lambda case: any(pair[0] == 0 for pair in case["operations"]),
        "many": lambda case: len(case["operations"]) == 30,
    },
    "u02-step-bytes": {
        **{
            phase: lambda case, phase=phase: case["phase"] == phase
            for phase in ("prefill", "decode", "train")
        },
        "several sequences decode": lambda case: (
            case["phase"] == "decode" and case["num_sequences"] > 1
        ),
        "shared keys": lambda case: case["model"]["num_heads"] > case["model"]["num_kv_heads"] > 1,
        "multi-query": lambda case: case["model"]["num_kv_heads"] == 1,
        "heads wider than the model": lambda case: (
            case["model"]["num_heads"] * case["model"]["head_dim"] > case["model"]["hidden_size"]
        ),
        "beyond a float": lambda case: case["model"]["hidden_size"] > 2**26,
    },
    "u02-fuse": {
        "causal": lambda case: case["is_causal"],
        "transposed": lambda case: case["is_transposed"],
        "recorded": lambda case: case["is_recording"],
    },
    "u02-repair-generate": {
        "one sequence": lambda case: case["num_sequences"] == 1,
        "a prompt of one token": lambda case: case["seq_len"] == 1,
        "evaluation": lambda case: not case["is_training"],
        **{
            name: lambda case, name=name: case["scenario"] == name
            for name in ("layers", "head", "logits", "graph", "waits")
        },
    },
    "u02-fewest-tokens": {
        "fp8": lambda case: case["element_bytes"] == 1,
        "a layer of a real model": lambda case: case["columns"] == 28672,
        "a layer too small": lambda case: (
            2 * case["inner"] * case["columns"] * case["bytes_per_second"]
            <= case["element_bytes"] * (case["inner"] + case["columns"]) * case["flops_per_second"]
        ),
    },
    "u02-decode-bound": {
        "one sequence": lambda case: case["num_sequences"] == 1,
        "many short ones": lambda case: case["num_sequences"] == 1024,
        "far too large": lambda case: case["context"] == 32768,
        "multi-head": lambda case: case["model"]["num_kv_heads"] == 32,
    },
    "u02-loader": {
        "one worker": lambda case: case["num_workers"] == 1,
        "more workers than batches": lambda case: case["num_workers"] > case["num_batches"],
        "steps are slower": lambda case: case["step_ms"] > case["load_ms"],
        "nearly hidden": lambda case: (
            0 < abs(case["load_ms"] - case["num_workers"] * case["step_ms"]) <= 2
        ),
    },
}
