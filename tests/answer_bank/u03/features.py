"""Kinds of cases that the exercises of unit 03 have for every seed."""


def _head_widths(case: dict) -> int:
    return case["model"]["num_heads"] * case["model"].get("head_dim", 0)


FEATURES = {
    "u03-parameters": {
        "GPT": lambda case: case["model"].get("has_biases", False),
        "gated with biases": lambda case: (
            case["model"].get("has_biases", False) and case["model"].get("is_gated", True)
        ),
        "tied Llama": lambda c: c["model"]["is_tied"] and not c["model"].get("has_biases"),
        "untied head": lambda case: not case["model"]["is_tied"],
        "learned positions": lambda case: case["model"].get("num_positions", 0) > 0,
        "learned positions and an untied head": lambda case: (
            case["model"].get("num_positions", 0) > 0 and not case["model"]["is_tied"]
        ),
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "a real model": lambda case: case["model"]["hidden_size"] == 2048,
        "heads wider than the model": lambda case: (
            _head_widths(case) > case["model"]["hidden_size"]
        ),
        "heads narrower than the model": lambda case: (
            0 < _head_widths(case) < case["model"]["hidden_size"]
        ),
    },
    "u03-state-bytes": {
        "fp32": lambda case: case["recipe"] == "fp32",
        "both gradients": lambda case: case["recipe"] == "bf16-both-gradients",
        "few parameters": lambda case: case["num_params"] < 10,
        "beyond a float": lambda case: case["num_params"] > 2**53,
    },
    "u03-kept-by-operation": {
        "one head": lambda case: case["num_heads"] == 1,
        "many heads": lambda case: case["num_heads"] > 5,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "longer than wide": lambda case: case["seq_len"] > case["hidden_size"],
    },
    "u03-gpt-layer-bytes": {
        "one head": lambda case: case["num_heads"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
        "longer than wide": lambda case: case["seq_len"] > case["hidden_size"],
        "GPT-3": lambda case: case["hidden_size"] == 12288,
    },
    "u03-llama-layer-bytes": {
        "fp32": lambda case: case["element_bytes"] == 4,
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "multi-head": lambda c: c["model"]["num_kv_heads"] == c["model"]["num_heads"],
        "several sequences": lambda case: case["num_sequences"] > 1,
        "Llama-3-8B": lambda case: case["model"]["hidden_size"] == 4096,
        "heads wider than the model": lambda case: (
            _head_widths(case) > case["model"]["hidden_size"]
        ),
        "heads narrower than the model": lambda case: (
            0 < _head_widths(case) < case["model"]["hidden_size"]
        ),
    },
    "u03-sequence-bytes": {
        "a small vocabulary": lambda case: case["model"]["vocab_size"] <= 20,
        "a large vocabulary": lambda case: case["model"]["vocab_size"] > 5000,
        "multi-query": lambda c: c["model"]["num_kv_heads"] == 1,
        "Llama-3-8B": lambda case: case["model"]["hidden_size"] == 4096,
        "a tied head": lambda case: case["model"]["is_tied"],
        "a head of its own": lambda case: not case["model"]["is_tied"],
    },
    "u03-microscope": {
        "bf16": lambda case: case["dtype"] == "bf16",
        "a view": lambda case: case["program"] == "a part of a large tensor",
        "no gradient": lambda case: case["program"] == "no gradient required",
        "a call that raises": lambda case: case["program"] == "a call that raises",
        "grad is disabled": lambda case: case["program"] == "grad is disabled",
        "a result without backward": lambda c: c["program"] == "a result that nobody uses",
        "no memory": lambda case: case["program"] == "tensors without memory",
        "whole numbers": lambda case: case["program"] == "indices and a mask",
        "freed storages": lambda case: case["program"] == "a call that frees what is saved",
        "a shared input": lambda case: case["program"] == "two layers read one input",
    },
    "u03-element-bytes": {
        "fp32 with dropout": lambda c: c["element_bytes"] == 4 and c["has_dropout"],
        "fp32 without": lambda c: c["element_bytes"] == 4 and not c["has_dropout"],
        "bf16 without": lambda c: c["element_bytes"] == 2 and not c["has_dropout"],
        "one head": lambda case: case["num_heads"] == 1,
    },
    "u03-fused-gate": {
        "one row": lambda case: case["shape"][:-1] == [1],
        "many rows": lambda case: case["shape"][0] > 3,
        "three sides": lambda case: len(case["shape"]) == 3,
        "halves of one tensor": lambda case: case["kind"] == "halves of one tensor",
        "u without a gradient": lambda case: case["kind"] == "u requires no gradient",
        "g without a gradient": lambda case: case["kind"] == "g requires no gradient",
        "leaves": lambda case: case["kind"] == "leaves",
        "large numbers": lambda case: case["kind"] == "large numbers in float32",
    },
    "u03-lost-bytes": {
        "multi-head": lambda case: case["num_heads"] == case["num_kv_heads"],
        "shared keys and values": lambda case: case["num_heads"] > case["num_kv_heads"] > 1,
        "multi-query": lambda case: case["num_heads"] > case["num_kv_heads"] == 1,
        "several sequences": lambda case: case["num_sequences"] > 1,
    },
}
